/** Samples a second, one byte each. */
const sampleRate = 8_000;
const header = 44;

/** Half a second of a tone, as WAV (RIFF, 8-bit PCM): the demo speaks nothing. */
export function speech(): Buffer {
  const samples = sampleRate / 2;
  const wav = Buffer.alloc(header + samples);
  wav.write('RIFF', 0, 'latin1');
  wav.writeUInt32LE(header - 8 + samples, 4);
  wav.write('WAVEfmt ', 8, 'latin1');
  wav.writeUInt32LE(16, 16); // size of the format
  wav.writeUInt16LE(1, 20); // PCM
  wav.writeUInt16LE(1, 22); // one channel
  wav.writeUInt32LE(sampleRate, 24);
  wav.writeUInt32LE(sampleRate, 28); // bytes a second
  wav.writeUInt16LE(1, 32); // bytes a sample
  wav.writeUInt16LE(8, 34); // bits a sample
  wav.write('data', 36, 'latin1');
  wav.writeUInt32LE(samples, 40);
  for (let i = 0; i < samples; i += 1)
    wav[header + i] = 128 + Math.round(40 * Math.sin((2 * Math.PI * 440 * i) / sampleRate));
  return wav;
}

/** The answer to a transcription or translation, whatever was said. */
export const transcription = {
  text: 'This is demo-echo, which hears nothing.',
  usage: { type: 'duration', seconds: 1 },
} as const;

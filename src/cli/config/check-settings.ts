import { refuseOption } from '../../options/checks.ts';
import { checkAccountSettings } from './account-options.ts';
import { type Settings, settingOf } from './environment.ts';
import { checkOptions } from './gateway-options.ts';

/** How to make what SECRET_KEYS takes. */
const howToMakeASecretKey = 'make one with: echo "k1:$(openssl rand -base64 32)"';

function checkKeyIds({ SECRET_KEYS }: Settings): void {
  if (SECRET_KEYS?.length === 0) refuseOption('SECRET_KEYS', `must be at least one key; ${howToMakeASecretKey}`);
  const ids = SECRET_KEYS?.map((key) => key.split(':')[0]) ?? [];
  if (new Set(ids).size < ids.length) refuseOption('SECRET_KEYS', 'every key needs an id of its own');
}

/** @throws GatewayError `invalid_options` where a gateway could not start without SECRET_KEYS */
export function requireSecretKeys({ MONGODB_URI, SECRET_KEYS }: Settings): void {
  if (!MONGODB_URI || SECRET_KEYS) return;
  refuseOption('SECRET_KEYS', `is required with MONGODB_URI, the same in every process; ${howToMakeASecretKey}`);
}

function checkProcesses(settings: Settings): void {
  const { MONGODB_URI, METRICS_PORT, METRICS_HOST } = settings;
  const workers = settingOf(settings, 'WORKERS');
  if (workers > 1 && !MONGODB_URI)
    refuseOption('WORKERS', 'needs MONGODB_URI: the embedded database serves one process');
  if ((METRICS_PORT ?? 0) + workers > 65_536)
    refuseOption('METRICS_PORT', `must leave ${workers} ports, one for each of WORKERS`);
  if (METRICS_HOST !== undefined && METRICS_PORT === undefined)
    refuseOption('METRICS_HOST', 'is set without METRICS_PORT, so nothing would use it; set both');
}

/**
 * Makes sure that what is set is right and belongs together, whatever is not set.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function checkSettings(settings: Settings): void {
  checkKeyIds(settings);
  checkProcesses(settings);
  checkAccountSettings(settings);
  checkOptions(settings);
}

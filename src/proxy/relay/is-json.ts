/** Whether a body is JSON. @param text the bytes, each as one character: bytes beyond ASCII occur only inside strings */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

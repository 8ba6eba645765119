/** A status as a label: `2xx`, … */
export function statusClass(status: number): string {
  return `${Math.floor(status / 100)}xx`;
}

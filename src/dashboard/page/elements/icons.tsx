import type { ComponentChildren } from 'preact';

/** All are drawn on 16 by 16, in the colour of the text around; what they mean is always said in words beside them. */
export function Icon({ children, size = 16 }: { children: ComponentChildren; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

export const circle = 'M14.25 8a6.25 6.25 0 1 1-12.5 0 6.25 6.25 0 0 1 12.5 0Z';
export const warning = 'M8 2 1.5 13.5h13zM8 6.5v3M8 11.5h.01';

const path = (d: string) => () => (
  <Icon>
    <path d={d} />
  </Icon>
);

export const OverviewIcon = path('M2.5 2.5h4.5v6H2.5zM9 2.5h4.5v3.5H9zM9 8.5h4.5v5H9zM2.5 11h4.5v2.5H2.5z');
export const WebhookIcon = path('M3 8h7m0 0L7 5m3 3-3 3M13 3.5v9');
export const EventIcon = path('M8.5 2 4 9h4l-.5 5L12 7H8z');
export const DeliveryIcon = path('M2.5 4h11M2.5 8h11M2.5 12h7');
export const KeyIcon = path('M10 2.5a3.5 3.5 0 1 1-2.3 6.1L3.5 13H2.5v-2.5l4.3-3.4A3.5 3.5 0 0 1 10 2.5ZM10.5 5.5h.01');
export const UsageIcon = path('M3 13V8m3.3 5V5m3.4 8V9.5M13 13V3');
export const StorageIcon = path(
  'M2.5 4.5c0-1.1 2.5-2 5.5-2s5.5.9 5.5 2-2.5 2-5.5 2-5.5-.9-5.5-2ZM2.5 4.5v7c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2v-7M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2',
);
export const TypesIcon = path('M5.5 2.5 2.5 8l3 5.5M10.5 2.5l3 5.5-3 5.5');
export const VerifyIcon = path('M8 2 3 4v4c0 3 2 5 5 6 3-1 5-3 5-6V4zM5.8 8l1.6 1.6L10.4 6.4');
export const StatusIcon = path('M1.5 8h3l2-4.5 3 9 2-4.5h3');
export const AccountIcon = path(
  'M8 2.5a2.75 2.75 0 1 1 0 5.5 2.75 2.75 0 0 1 0-5.5ZM2.5 13.5c.7-2.6 2.8-4 5.5-4s4.8 1.4 5.5 4',
);
export const RefusedIcon = path(`${circle}M3.6 3.6l8.8 8.8`);
export const SunIcon = path(
  'M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6ZM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7',
);
export const MoonIcon = path('M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3Z');
export const OutIcon = path('M6.5 13.5h-3v-11h3M10 11l3-3-3-3M13 8H6.5');
export const CopyIcon = path('M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z');
export const DoneIcon = path('m3 8.5 3.2 3L13 4.5');
export const PlusIcon = path('M8 3v10M3 8h10');
export const CloseIcon = path('m4 4 8 8m0-8-8 8');
export const BackIcon = path('M10 3.5 5.5 8l4.5 4.5');
export const ForwardIcon = path('M6 3.5 10.5 8 6 12.5');
export const SendIcon = path('M14 2 7.5 8.5M14 2l-4 12-2.5-5.5L2 6z');
export const AgainIcon = path('M13.5 8A5.5 5.5 0 1 1 11.7 4L13.5 5.5M13.5 2.5v3h-3');
export const WarnIcon = path(warning);
export const PauseIcon = path('M5.5 3.5v9M10.5 3.5v9');
export const PlayIcon = path('M5 3v10l8-5z');
export const EditIcon = path('m10.5 3 2.5 2.5-7.5 7.5H3v-2.5z');
export const TrashIcon = path('M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.5 9h6l.5-9');

export function Logo() {
  return (
    <span class="logo" aria-hidden="true">
      <WebhookIcon />
    </span>
  );
}

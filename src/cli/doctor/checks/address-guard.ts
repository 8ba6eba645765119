import { isAllowedAddress, parseNetworks } from '../../../outbound/addresses.ts';
import { type CheckContext, failed, problemsOr, type Result, warning } from '../check.ts';

/** Addresses of the cloud's metadata service, which hands out the machine's credentials. */
const metadataServices = ['169.254.169.254', 'fd00:ec2::254', '168.63.129.16'];
const loopback = ['127.0.0.1', '::1'];

/** What webhooks may reach. */
export async function checkAddressGuard({ settings }: CheckContext): Promise<readonly Result[]> {
  const { allowHttp, allowPrivateNetworks, isOnTrial } = settings;
  const networks = parseNetworks(allowPrivateNetworks);
  const mayReach = (addresses: readonly string[]) => addresses.some((address) => isAllowedAddress(address, networks));
  const list = allowPrivateNetworks.join(', ');
  const problems: Result[] = [
    ...(mayReach(metadataServices)
      ? [failed(`webhooks may reach the metadata service of the cloud (${list})`, 'narrow ALLOW_PRIVATE_NETWORKS')]
      : []),
    ...(mayReach(loopback) && !isOnTrial
      ? [warning(`webhooks may reach this machine itself (${list})`, 'take loopback out of ALLOW_PRIVATE_NETWORKS')]
      : []),
    ...(allowHttp && !isOnTrial ? [warning('webhooks may be plain http', 'set ALLOW_HTTP=false')] : []),
  ];
  const beside = list ? `, and ${list}` : '';
  return problemsOr(
    problems,
    `webhooks may reach public addresses by ${allowHttp ? 'http or https' : 'https'}${beside}`,
  );
}

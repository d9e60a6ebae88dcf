import { isIPv4 } from 'node:net'

/** Ids of containers that are Gantry's alone, and where each is on the private bridge. */
export interface AddressRange {
  readonly first: number
  readonly last: number
  /** The address of a container, with the length of the network's prefix. */
  of(vmid: number): { readonly address: string; readonly prefix: number; readonly hardware: string }
}

export interface VmidRange {
  readonly first: number
  readonly last: number
}

/** Returns what is wrong with `10.77.0.16/24` as the first address of so many containers. */
export function rangeFault(from: string, count: number): string | undefined {
  const [address = '', length = '', rest] = from.split('/')
  const prefix = Number(length)
  if (!isIPv4(address) || rest !== undefined || !/^\d{1,2}$/.test(length) || prefix < 8 || prefix > 30) {
    return 'must be an IPv4 address with the prefix of its network, 8 to 30, such as 10.77.0.16/24'
  }
  const number = numberOf(address)
  const size = 2 ** (32 - prefix)
  const at = number % size
  // The first and the last address of a network are no container's.
  if (at === 0 || at + count > size - 1)
    return `must leave ${count} addresses to the end of its network, one for each vmid`
  return undefined
}

/** `from` and `vmids` are checked. A vmid is unique in the cluster, so that its address is too. */
export function createAddressRange(from: string, { first, last }: VmidRange): AddressRange {
  const [address = '', prefix = ''] = from.split('/')
  const base = numberOf(address)
  return {
    first,
    last,
    of(vmid) {
      const hex = vmid.toString(16).padStart(8, '0').match(/../g) ?? []
      // Always the same for an address, so that no neighbour keeps an old one. The second digit says: locally administered.
      return {
        address: textOf(base + vmid - first),
        prefix: Number(prefix),
        hardware: ['02', '47', ...hex].join(':').toUpperCase(),
      }
    },
  }
}

function numberOf(address: string): number {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
}

function textOf(number: number): string {
  return [24, 16, 8, 0].map((bits) => Math.floor(number / 2 ** bits) % 256).join('.')
}

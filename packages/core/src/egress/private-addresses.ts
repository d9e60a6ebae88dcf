import { lookup as lookupByDns } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'
import { ToolError } from '@gantry/contract'
import { unlessAborted } from '../resilience/abort.ts'
import type { Admitted, Report } from './admit.ts'
import { codeOf, unreachable } from './failures.ts'
import type { HostLookup } from './options.ts'
import type { Target } from './target.ts'

const lookupBySystem: HostLookup = (host) => lookupByDns(host, { all: true, verbatim: true })

/**
 * Resolves a target once and returns its addresses. Rejects with EGRESS_DENIED when any of them is not allowed: a name
 * with a public and a private address is a DNS rebinding attempt.
 */
export async function checkedAddresses(
  admitted: Admitted,
  lookup: HostLookup = lookupBySystem,
  report: Report,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { owner, target } = admitted
  const addresses = await addressesOf(target, lookup, signal).catch((error: unknown) => {
    report(owner, target, { outcome: 'failed', reason: codeOf(signal.aborted ? signal.reason : error) })
    throw signal.aborted ? signal.reason : unreachable(target, error)
  })
  refuseAny(admitted, addresses, report)
  return addresses
}

/** Throws EGRESS_DENIED for a target whose host is a forbidden IP address or localhost. */
export function refuseKnown(admitted: Admitted, report: Report): void {
  const { host } = admitted.target
  if (isIP(host) !== 0) refuseAny(admitted, [host], report)
  else if (/(?:^|\.)localhost$/.test(host)) refuseAny(admitted, ['127.0.0.1'], report)
}

function refuseAny(
  { owner, target, private: mayBePrivate }: Admitted,
  addresses: readonly string[],
  report: Report,
): void {
  for (const address of addresses) {
    const kind = kindOf(address)
    if (kind === 'public' || (kind === 'special' && mayBePrivate)) continue
    const words = kind === 'special' ? 'a private or reserved address' : 'an address that no rule allows'
    report(owner, target, { outcome: 'refused', reason: `${address.slice(0, 64)} is ${words}` })
    throw new ToolError('EGRESS_DENIED', addressFault(target, kind === 'special'))
  }
}

function addressFault({ host, origin }: Target, special: boolean): string {
  if (!special) return `${host} leads to a metadata service or a link-local address, which no rule can allow.`
  const line = `{ "origin": "${origin}", "private": true }`
  return `${host} leads to a private or reserved address. If that is intended, add ${line} to egress.allow.`
}

async function addressesOf({ host }: Target, lookup: HostLookup, signal: AbortSignal): Promise<readonly string[]> {
  if (isIP(host) !== 0) return [host]
  const found = await unlessAborted(lookup(host, signal), signal)
  const addresses = Array.isArray(found) ? found.map((item) => String(item?.address)) : []
  if (addresses.length === 0) throw Object.assign(new Error('The name has no address.'), { code: 'ENODATA' })
  return addresses
}

/** The class of an address: `metadata` is always refused, `special` unless a rule has `private: true`. */
type AddressKind = 'public' | 'special' | 'metadata'

/** Ranges that IANA does not list as globally reachable, and ranges that relay to such networks. */
const specialV4 = blockList('ipv4', [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
])
const specialV6 = blockList('ipv6', [
  '::/96',
  '::ffff:0:0:0/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '100::/64',
  '100:0:0:1::/64',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '5f00::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
])

/**
 * Metadata services, which give cloud credentials to any client. No rule allows them, not even one with the address: the
 * DNS operator controls where a name resolves, `private: true` is meant for hosts such as databases, and a program that
 * needs such a credential can receive it as a secret. All link-local addresses count, because clouds keep adding some.
 */
const metadataV4 = blockList('ipv4', [
  '169.254.0.0/16', // AWS, Google, Azure, Oracle, DigitalOcean, OpenStack; ECS and EKS credentials
  '100.100.100.200/32', // Alibaba
  '192.0.0.192/32', // Oracle
  '168.63.129.16/32', // Azure's wire server, which looks public
])
const metadataV6 = blockList('ipv6', [
  'fe80::/10', // OpenStack
  'fd00:ec2::/32', // AWS
  'fd20:ce::254/128', // Google
  'fd00:c1::a9fe:a9fe/128', // Oracle
  'fd00:42::42/128', // Scaleway
])

/** Classifies an IP address as parsed by `net.isIP`; any other text counts as metadata, so that it is refused. */
export function kindOf(address: string): AddressKind {
  const family = isIP(address)
  if (family === 4) return kindOfV4(address)
  if (family !== 6 || address.includes('%')) return 'metadata'
  const bytes = bytesOfV6(address)
  if (startsWith(bytes, mapped)) return kindOfV4(bytes.slice(12).join('.'))
  if (metadataV6.check(address, 'ipv6')) return 'metadata'
  if (innerV4(bytes).some((inner) => metadataV4.check(inner, 'ipv4'))) return 'metadata'
  return specialV6.check(address, 'ipv6') ? 'special' : 'public'
}

function kindOfV4(address: string): AddressKind {
  if (metadataV4.check(address, 'ipv4')) return 'metadata'
  return specialV4.check(address, 'ipv4') ? 'special' : 'public'
}

const mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]

/** The IPv4 addresses that NAT64 or a tunnel derives from an IPv6 address. */
function innerV4(bytes: readonly number[]): string[] {
  const at = (start: number): string => bytes.slice(start, start + 4).join('.')
  const split = (...positions: number[]): string => positions.map((position) => bytes[position]).join('.')
  if (startsWith(bytes, [0x20, 0x02])) return [at(2)]
  if (startsWith(bytes, [0x20, 0x01, 0, 0]))
    return [
      at(4),
      bytes
        .slice(12)
        .map((byte) => byte ^ 0xff)
        .join('.'),
    ]
  if (startsWith(bytes, [0, 0x64, 0xff, 0x9b])) return [at(12), split(6, 7, 9, 10), split(7, 9, 10, 11), at(9)]
  return startsWith(bytes, [0, 0, 0, 0, 0, 0, 0, 0]) ? [at(12)] : []
}

function startsWith(bytes: readonly number[], prefix: readonly number[]): boolean {
  return prefix.every((byte, index) => bytes[index] === byte)
}

/** The 16 bytes of an IPv6 address without a zone. */
function bytesOfV6(address: string): number[] {
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [head = '', tail] = text.split('::')
  const words = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((word) => Number.parseInt(word, 16))
  const first = words(head)
  const last = tail === undefined ? [] : words(tail)
  const zeros = new Array<number>(8 - first.length - last.length).fill(0)
  return [...first, ...zeros, ...last].flatMap((word) => [word >> 8, word & 0xff])
}

function blockList(family: 'ipv4' | 'ipv6', ranges: readonly string[]): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [network = '', prefix] = range.split('/')
    list.addSubnet(network, Number(prefix), family)
  }
  return list
}

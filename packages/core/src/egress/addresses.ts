import { lookup as lookupByDns } from 'node:dns/promises'
import { isIP } from 'node:net'
import { ToolError } from '@gantry/contract'
import { kindOf } from './address.ts'
import type { Admitted } from './admit.ts'
import { codeOf, unreachable } from './failures.ts'
import type { HostLookup } from './options.ts'
import type { Report } from './report.ts'
import type { Target } from './target.ts'
import { unlessAborted } from './unless-aborted.ts'

const lookupBySystem: HostLookup = (host) => lookupByDns(host, { all: true, verbatim: true })

/**
 * Resolves a target once and gives its addresses. Rejects with EGRESS_DENIED when a single one of them is not allowed,
 * because whoever answers with a public and a private address together wants the private one dialled.
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

/** Throws EGRESS_DENIED for a target whose name is an address that may not be reached, or stands for this machine. */
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
  return `${host} leads to a private or reserved address. If that is meant, put ${line} into egress.allow.`
}

async function addressesOf({ host }: Target, lookup: HostLookup, signal: AbortSignal): Promise<readonly string[]> {
  if (isIP(host) !== 0) return [host]
  const found = await unlessAborted(lookup(host, signal), signal)
  const addresses = Array.isArray(found) ? found.map((item) => String(item?.address)) : []
  if (addresses.length === 0) throw Object.assign(new Error('The name has no address.'), { code: 'ENODATA' })
  return addresses
}

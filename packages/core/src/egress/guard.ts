import type { Socket } from 'node:net'
import type { Release } from '../resilience/slots.ts'
import { refuseKnown } from './addresses.ts'
import { type Admitted, createAdmission } from './admit.ts'
import { createDialer } from './dial.ts'
import type { Egress, EgressTarget } from './egress.ts'
import { createFetch } from './fetch.ts'
import { type EgressOptions, settingsOf } from './options.ts'
import { createPlaces } from './places.ts'
import { createPools, noLonger } from './pools.ts'
import { createReport } from './report.ts'
import { request } from './request.ts'
import { parseUrl, targetOfHost } from './target.ts'

/** Makes the one way out to a network; throws CONFIG_INVALID. It opens nothing before the first request. */
export function createEgress(options: EgressOptions = {}): Egress {
  const settings = settingsOf(options)
  const report = createReport(settings.onEvent)
  const admission = createAdmission(settings, report)
  const dialer = createDialer(settings, report, () => pools.closeIdle())
  const pools = createPools(settings, dialer)
  const raw = new Map<AbortController, Admitted>()
  const places = createPlaces(settings, report)
  const ports = { settings, admission, places, pools, report }

  const connect = async (asked: EgressTarget): Promise<Socket> => {
    const { host, port, tls, tunnel, signal } = asked
    signal.throwIfAborted()
    const target = targetOfHost(tls === undefined && tunnel === undefined ? 'http' : 'https', host, port)
    const admitted = admission.connection(target, asked)
    const revoke = new AbortController()
    raw.set(revoke, admitted)
    let leave: Release | undefined
    try {
      const options = { tls, tunnel, signal: AbortSignal.any([signal, revoke.signal]) }
      const { connectMs: originMs } = settings
      leave = await places.take(admitted, { tenant: asked.tenant, signal: options.signal, originMs })
      const socket = await dialer.dial(admitted, options)
      socket.once('close', leave)
      const end = (): void => void socket.destroy(revoke.signal.reason)
      revoke.signal.addEventListener('abort', end, { once: true })
      socket.once('close', () => raw.delete(revoke))
      if (revoke.signal.aborted) end()
      return socket
    } catch (error) {
      leave?.()
      raw.delete(revoke)
      throw error
    }
  }
  const egress: Egress = {
    request: (asked) => request(ports, asked),
    async check({ url, method = 'GET', ...scope }) {
      refuseKnown(admission.check(parseUrl(url), method.toUpperCase(), scope), report)
    },
    connect,
    fetch: (scope) => createFetch(egress, scope),
    setRules(allow) {
      admission.setRules(allow)
      pools.retire((admitted) => admission.stillAdmits(admitted, false))
      // A raw connection takes any number of calls, so one that is now forbidden cannot be left to its owner.
      for (const [revoke, admitted] of raw) if (!admission.stillAdmits(admitted, true)) revoke.abort(noLonger(admitted))
    },
    async close() {
      dialer.close()
      await pools.close()
    },
  }
  return egress
}

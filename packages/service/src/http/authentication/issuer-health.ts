import type { Bus } from '../../observe/bus.ts'
import type { TokenOptions } from './token.ts'

/** Tells when the keys of an issuer cannot be had any more and when they can again, each once, whatever is read again. */
export function createIssuerWatch(bus: Bus, now: () => number = performance.now.bind(performance)): Told {
  const downSince = new Map<string, number>()
  return ({ name }, fault) => {
    const since = downSince.get(name)
    if (fault === undefined) {
      downSince.delete(name)
      if (since !== undefined) bus.emit('issuer:up', { issuer: name, downMs: Math.round(now() - since) })
    } else if (since === undefined) {
      downSince.set(name, now())
      bus.emit('issuer:down', { issuer: name, reason: fault })
    }
  }
}

type Told = NonNullable<TokenOptions['told']>

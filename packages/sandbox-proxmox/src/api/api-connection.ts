import { Agent, type AgentOptions } from 'node:https'
import { connect, type TLSSocket } from 'node:tls'
import { sameFingerprint } from './fingerprint.ts'

/** How the certificate of the API is checked: by a fingerprint, by authorities of its own, or by those of the system. */
export interface ApiTrust {
  /** SHA-256 of the certificate, as `pvenode cert info` prints it. */
  readonly fingerprint?: string
  /** Authorities as PEM. */
  readonly ca?: string
}

const connectMs = 5_000
const mostSockets = 16

/**
 * Connections to the API. With a fingerprint the certificate is compared before the first byte is sent, because the token
 * is in the first request.
 */
export function apiAgent({ fingerprint, ca }: ApiTrust, keepAlive: boolean): Agent {
  const settings: AgentOptions = { keepAlive, maxSockets: mostSockets, minVersion: 'TLSv1.2', scheduling: 'lifo' }
  if (fingerprint === undefined) return new Agent({ ...settings, ...(ca === undefined ? {} : { ca }) })
  return new PinnedAgent(settings, fingerprint)
}

class PinnedAgent extends Agent {
  readonly #fingerprint: string

  constructor(settings: AgentOptions, fingerprint: string) {
    super(settings)
    this.#fingerprint = fingerprint
  }

  override createConnection(
    options: Parameters<Agent['createConnection']>[0],
    done?: (error: Error | null, socket: TLSSocket) => void,
  ): undefined {
    const { host, port, servername } = options as { host?: string; port?: number; servername?: string }
    const socket = connect({
      host: host ?? '127.0.0.1',
      port: Number(port),
      ...(servername === undefined || servername === '' ? {} : { servername }),
      minVersion: 'TLSv1.2',
      // The fingerprint below takes the place of authorities and names.
      rejectUnauthorized: false,
    })
    socket.setTimeout(connectMs, () => socket.destroy(new Error('The connection took too long.')))
    const failed = (error: Error): void => done?.(error, socket)
    socket.once('error', failed)
    socket.once('secureConnect', () => {
      const shown = socket.getPeerX509Certificate()?.fingerprint256 ?? ''
      if (!sameFingerprint(shown, this.#fingerprint)) {
        return void socket.destroy(new FingerprintError(shown))
      }
      socket.setTimeout(0)
      socket.off('error', failed)
      done?.(null, socket)
    })
    return undefined
  }
}

/** The API showed another certificate than the configured one. */
export class FingerprintError extends Error {
  override readonly name = 'FingerprintError'

  constructor(shown: string) {
    super(`The certificate has the fingerprint ${shown}.`)
  }
}

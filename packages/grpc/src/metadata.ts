import { ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { fetchSecrets, fillSecrets, secretNames } from '@gantry/core/internal/ids/secret-reference'

type Metadata = { readonly [name: string]: string }

const reserved = new Set(['te', 'content-type', 'user-agent', 'host', 'connection', 'keep-alive', 'upgrade'])
for (const name of ['transfer-encoding', 'proxy-connection', 'http2-settings', 'content-length']) reserved.add(name)

/** Says what is wrong with one entry of metadata, or gives undefined. */
export function metadataFault(name: string, value: unknown): string | undefined {
  if (!/^[0-9a-z_.-]{1,128}$/.test(name)) return 'must be a name of lower-case letters, digits, `_`, `.` and `-`'
  if (name.startsWith('grpc-') || reserved.has(name)) return 'is a name that gRPC keeps for itself'
  if (typeof value !== 'string') return 'must be text'
  if (value.includes('secret:')) return undefined
  return valueFault(name, value)
}

/**
 * The metadata of one call, later lists before earlier ones. `secret:name` is put in here and nowhere before; what a
 * secret turns out to hold is checked like the rest. The idempotency key goes along unless an entry names it.
 */
export async function fillMetadata(
  lists: readonly (Metadata | undefined)[],
  idempotencyKey: string | undefined,
  secret: (name: string) => Promise<string>,
): Promise<{ readonly [name: string]: string }> {
  const filled: { [name: string]: string } = {}
  if (idempotencyKey !== undefined && valueFault('idempotency-key', idempotencyKey) === undefined) {
    filled['idempotency-key'] = idempotencyKey
  }
  const entries = lists.flatMap((list) => Object.entries(list ?? {}))
  for (const [name, value] of entries) {
    const fault = metadataFault(name, value)
    if (fault !== undefined) throw new ToolError('CONFIG_INVALID', `The metadata ${quote(name)} ${fault}.`)
  }
  const names = secretNames(entries.map(([, value]) => value))
  const secrets = await fetchSecrets(names, secret)
  for (const [name, value] of entries) {
    const full = fillSecrets(value, secrets)
    const inside = valueFault(name, full)
    if (inside !== undefined) throw unfit(name, inside)
    filled[name] = full
  }
  return filled
}

/** For a secret that cannot stand where the configuration wants it; its value is not shown. */
function unfit(name: string, fault: string): ToolError {
  const message = `The metadata ${quote(name)} ${fault}; its secret holds something else.`
  return new ToolError('SECRET_UNAVAILABLE', message, { retryable: false })
}

/** A line break would begin another header; `-bin` values travel as base64. */
function valueFault(name: string, value: string): string | undefined {
  if (name.endsWith('-bin')) return /^[A-Za-z0-9+/]*={0,2}$/.test(value) ? undefined : 'must be base64'
  return /^[\x20-\x7e]*$/.test(value) ? undefined : 'may hold only printable ASCII characters, and no line break'
}

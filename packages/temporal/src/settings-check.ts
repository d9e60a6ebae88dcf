import { type Check, either, listOf, part, ruled, text, whole } from '@gantry/core/internal/options/option'
import { optionsCheck } from '@gantry/core/internal/options/options'
import { isLoopback } from '@gantry/sandbox-remote/internal/protocol/address'

/** A Temporal server as configuration says it: keys as text or as `secret:name`, certificates as files. */
export interface TemporalSettings {
  /** `host:7233`; without `tls` on this machine alone. */
  readonly address: string
  /** `default` when absent. */
  readonly namespace?: string
  /** Before the names of the two task queues; `gantry` when absent. */
  readonly taskQueue?: string
  /** PEM files: authorities other than those of the system, and a certificate with its key for mutual TLS. */
  readonly tls?: true | { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string }
  /** As `secret:name`. */
  readonly apiKey?: string
  /** 32 bytes as base64 or hex, as `secret:name`; several to change it: the first seals, all open. */
  readonly payloadKey?: string | readonly string[]
  /** A worker that is silent for this long is lost; 10,000 when absent. */
  readonly heartbeatMs?: number
}

/** The runtime temporal; absent, it is not created. */
export interface TemporalRuntimesOptions {
  readonly temporal?: TemporalSettings
}

/** Before the name of a secret. */
export const secretPrefix = 'secret:'
const addressForm = /^(?<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+):(?<port>\d{1,5})$/i
const secretName = ruled(
  (value) =>
    value.startsWith(secretPrefix) && value.length > secretPrefix.length
      ? undefined
      : 'must be secret:name, so that it is in no file',
  'secret:name',
)
const shape = optionsCheck<TemporalSettings>({
  members: {
    address: ruled(
      (value) => (addressForm.test(value) ? undefined : 'must be an address such as host:7233'),
      'an address such as host:7233',
    ),
    namespace: text(255),
    taskQueue: text(200),
    tls: either(
      oneTrue(),
      optionsCheck<Exclude<TemporalSettings['tls'], true | undefined>>({
        members: { caFile: text(), certFile: text(), keyFile: text() },
      }),
    ),
    apiKey: secretName,
    payloadKey: either(secretName, listOf(secretName)),
    heartbeatMs: whole(1_000, 600_000),
  },
  required: ['address'],
})

function oneTrue(): Check {
  return part((value) => value === true, 'true', { const: true })
}

/** The check of `TemporalSettings`. */
export const temporalCheck: Check = {
  schema: shape.schema,
  fits: (value) => shape.fits(value) && pathFault(value as TemporalSettings) === undefined,
  issues: (value, path) => {
    const issues = shape.issues(value, path)
    const fault = issues.length === 0 ? pathFault(value as TemporalSettings) : undefined
    return fault === undefined ? issues : [{ path: `${path}${fault.path}`, message: fault.message }]
  },
}
export const temporalChecks: { readonly temporal: Check } = { temporal: temporalCheck }

/** What no member is wrong in by itself. */
function pathFault({ address, tls, payloadKey }: TemporalSettings) {
  const host = addressForm.exec(address)?.groups?.host ?? ''
  if (tls === undefined && !isLoopback(host))
    return {
      path: '/tls',
      message: 'is required, because the server is not on this machine; set true, or name its files',
    }
  if (typeof tls === 'object' && (tls.certFile === undefined) !== (tls.keyFile === undefined))
    return { path: '/tls', message: 'must have both certFile and keyFile, or none' }
  if (Array.isArray(payloadKey) && payloadKey.length === 0)
    return { path: '/payloadKey', message: 'must have at least one key' }
  return undefined
}

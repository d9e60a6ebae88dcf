import type { Tool } from '@gantry/contract'
import {
  listOf,
  mapOf,
  oneOf,
  record,
  refuseConfig,
  type Shape,
  text,
  whole,
} from '@gantry/core/internal/backends/http/check'
import { covers, parseRules, type Rule } from '@gantry/core/internal/egress/rules'
import type { Target } from '@gantry/core/internal/egress/target'

/** Methods that a fetch may have at all; the two that carry other requests or repeat credentials are not among them. */
export const fetchMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE']
/** Methods that ask for nothing to change. */
export const safeMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS']
/** Of one answer, unless configured; also as base64 it fits into a result. */
export const usualBytes = 2_097_152
const mostBytes = 67_108_864

/** What one tool that fetches may do; all of it may be left out. */
export interface WebOptions {
  /** Origins that it may reach, within `egress.allow`; without such rules these count by themselves. */
  readonly allow?: readonly string[]
  /** All that there are when absent. With none that changes anything, the tool's effect is `read`. */
  readonly methods?: readonly string[]
  /** Bytes of a body that are read at most; 2 MiB. */
  readonly maxBytes?: number
  /** Which secrets a caller may refer to, and to which origins each of them may be sent. */
  readonly secrets?: { readonly [name: string]: readonly string[] }
}

/** Options that were found sound. */
export interface WebPlan {
  readonly methods: readonly string[]
  readonly maxBytes: number
  readonly allow: readonly string[] | undefined
  /** Whether a secret may be sent to a place. */
  readonly grants: (secret: string, target: Target) => boolean
}

const origins: Shape = listOf(text)
const members: { readonly [key: string]: Shape } = {
  allow: origins,
  methods: listOf(oneOf(...fetchMethods)),
  maxBytes: whole(1, mostBytes),
  secrets: mapOf(origins, secretFault),
}
const optionsShape = record(members)
const bindingShape = record({ ...members, kind: oneOf('web'), name: text })

function secretFault(name: string): string | undefined {
  return /^[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)*$/.test(name) ? undefined : 'is not the name of a secret'
}

/** Where these options stand in a configuration. */
const at = '/httpFetch'

/** Throws CONFIG_INVALID with the path of each wrong option. */
export function checkWebOptions(options: WebOptions): void {
  refuseConfig('The configuration of http:fetch', optionsShape(options, at))
  planOf(options, at)
}

/** Reads a binding of kind `web`; throws CONFIG_INVALID. */
export function readBinding(binding: object, tool: Tool): WebPlan {
  refuseConfig(`The web binding of ${tool.namespace}:${tool.name}`, bindingShape(binding, ''))
  return planOf(binding as WebOptions, '')
}

function planOf(
  { allow, methods = fetchMethods, maxBytes = usualBytes, secrets = {} }: WebOptions,
  path: string,
): WebPlan {
  if (allow !== undefined) parseRules(allow, `${path}/allow`)
  const granted = new Map<string, readonly Rule[]>(
    Object.entries(secrets).map(([name, list]) => [name, parseRules(list, `${path}/secrets/${name}`)]),
  )
  return {
    methods,
    maxBytes,
    allow,
    grants: (secret, target) => granted.get(secret)?.some((rule) => covers(rule, target)) === true,
  }
}

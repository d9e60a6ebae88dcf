import type { JsonSchema, Tool } from '@gantry/contract'
import { covers, parseRules, type Rule } from '@gantry/core/internal/egress/rules'
import type { Target } from '@gantry/core/internal/egress/target'
import { anyText, type Member, mapOf, oneOf, part, whole } from '@gantry/core/internal/options/option'
import { checkOptions, optionsCheck, refuse } from '@gantry/core/internal/options/options'

/** Methods that a fetch may have at all; the two that carry other requests or repeat credentials are not among them. */
export const fetchMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE']
/** Safe methods. */
export const safeMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS']
/** Of one answer, unless configured; also as base64 it fits into a result. */
export const usualBytes = 2_097_152
const mostBytes = 67_108_864

/** Limits of one tool that fetches; each is optional. */
export interface WebOptions {
  /** Origins that it may reach, within `egress.allow`; without such rules these count by themselves. */
  readonly allow?: readonly string[]
  /** All methods when absent. With only safe methods, the tool's effect is `read`. */
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
  /** Whether a secret may be sent to an origin. */
  readonly grants: (secret: string, target: Target) => boolean
}

const isOrigins = (value: unknown): boolean =>
  Array.isArray(value) && value.every((origin) => typeof origin === 'string')
const members: { readonly [Key in keyof Required<WebOptions>]: Member } = {
  allow: { type: 'array', items: anyText },
  methods: { type: 'array', items: oneOf(...fetchMethods) },
  maxBytes: whole(1, mostBytes),
  secrets: mapOf(
    part(isOrigins, 'a list of origins', { type: 'array', items: anyText, description: 'a list of origins' }),
    secretFault,
  ),
}
const optionsShape = optionsCheck<WebOptions>({ members })
/** The schema of the options of `http:fetch`; `parseRules` checks the origins. */
export const webSchema: JsonSchema = optionsShape.schema ?? true
const bindingShape = optionsCheck<WebOptions & { readonly kind: 'web'; readonly name?: string }>({
  members: { ...members, kind: oneOf('web'), name: anyText },
})

function secretFault(name: string): string | undefined {
  return /^[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)*$/.test(name) ? undefined : 'is not the name of a secret'
}

/** The path of these options in a configuration. */
const at = '/httpFetch'

/** Throws CONFIG_INVALID with the path of each wrong option. */
export function checkWebOptions(options: WebOptions): void {
  refuse('options of http:fetch', optionsShape.issues(options, at))
  planOf(options, at)
}

/** Reads a binding of kind `web`; throws CONFIG_INVALID. */
export function readBinding(binding: object, tool: Tool): WebPlan {
  checkOptions(`web binding of ${tool.namespace}:${tool.name}`, bindingShape, binding)
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

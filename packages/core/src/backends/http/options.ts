import type { HttpAuth, Tool } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { EgressRule } from '../../egress/egress.ts'
import { namespaceFault } from '../../ids/tool-id.ts'
import { anyText, flag, listOf, part, ruled, whole } from '../../options/option.ts'
import { checkOptions, optionsCheck } from '../../options/options.ts'
import { authCheck, authList, headersCheck, idempotencyCheck } from './headers.ts'
import { type Base, baseFault, readBase, templateFault } from './parameters.ts'

/** An HTTP provider: its URL, its auth and its tools. */
export interface HttpOptions {
  /** Namespace of its tools, and the name of the backend in bindings. */
  readonly name: string
  /** `https://api.example.com/v1`; every request URL is below it. */
  readonly baseUrl: string
  /** Further origins that bindings may use; the credentials are sent there too. */
  readonly origins?: readonly string[]
  readonly auth?: HttpAuth | readonly HttpAuth[]
  /** Sent with every call; `secret:name` is replaced just before sending. Headers of a binding override these. */
  readonly headers?: { readonly [name: string]: string }
  readonly query?: { readonly [name: string]: string }
  /** Whether its origin may have a private address, as long as the executor has no egress rules. */
  readonly private?: boolean
  /** Most redirects to follow; 3 when absent. */
  readonly redirects?: number
  /** Most bytes of a decoded response; the limit of the egress guard when absent. */
  readonly maxResponseBytes?: number
  /** The header that carries the idempotency key; `Idempotency-Key` when absent, none when false. */
  readonly idempotencyHeader?: string | false
  /** Path below the base URL that `health` requests without credentials; the base path when absent. */
  readonly healthPath?: string
  /** Its tools; each has a binding of kind `http`. */
  readonly tools?: readonly Tool[]
}

/** Checked options with defaults. */
export interface Settings {
  readonly name: string
  readonly base: Base
  /** All origins of its requests. */
  readonly origins: ReadonlySet<string>
  readonly own: readonly EgressRule[]
  readonly auth: readonly HttpAuth[]
  readonly headers: { readonly [name: string]: string }
  readonly constants: { readonly [name: string]: string }
  readonly redirects: number
  readonly maxBytes: number | undefined
  readonly idempotencyHeader: string | false
  readonly healthPath: string
  readonly tools: readonly Tool[] | undefined
}

/** The check of the options of an HTTP backend. */
export const httpCheck = optionsCheck<HttpOptions>({
  members: {
    name: ruled(namespaceFault),
    baseUrl: ruled(baseFault),
    origins: listOf(ruled(originFault)),
    auth: authCheck,
    headers: headersCheck,
    query: { type: 'object', additionalProperties: anyText },
    private: flag,
    redirects: whole(0, 20),
    maxResponseBytes: whole(1),
    idempotencyHeader: idempotencyCheck,
    healthPath: ruled((path) => (/[{}]/.test(path) ? 'must hold no braces' : templateFault(path))),
    tools: listOf(part(hasHttpBinding, 'a tool with a binding of kind http')),
  },
  required: ['name', 'baseUrl'],
})

function originFault(text: string): string | undefined {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === text
    ? undefined
    : 'must be the origin of an http or https URL, such as https://uploads.example.com'
}

function hasHttpBinding(tool: unknown): boolean {
  if (!isObject(tool) || !Array.isArray(tool.backends)) return false
  return tool.backends.some((binding) => isObject(binding) && binding.kind === 'http')
}

/** Checks the options; throws CONFIG_INVALID with every failing path. */
export function readOptions(options: HttpOptions): Settings {
  checkOptions('options of an http backend', httpCheck, options)
  const base = readBase(options.baseUrl)
  const { auth, healthPath = '' } = options
  const origins = new Set([base.origin, ...(options.origins ?? [])])
  return {
    name: options.name,
    base,
    origins,
    own: [...origins].map((origin) => ({ origin, ...(options.private === true ? { private: true } : {}) })),
    auth: auth === undefined ? [] : authList(auth),
    headers: options.headers ?? {},
    constants: options.query ?? {},
    redirects: options.redirects ?? 3,
    maxBytes: options.maxResponseBytes,
    idempotencyHeader: options.idempotencyHeader ?? 'Idempotency-Key',
    healthPath: healthPath === '' || healthPath.startsWith('/') ? healthPath : `/${healthPath}`,
    tools: options.tools?.map((tool) => ownTool(options.name, tool)),
  }
}

/** A tool of this backend: in its namespace, and bound to it by name. */
function ownTool(name: string, tool: Tool): Tool {
  const backends = tool.backends.map((binding) => (binding.kind === 'http' ? { ...binding, name } : binding))
  return { ...tool, namespace: name, backends }
}

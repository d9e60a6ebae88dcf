import type { HttpAuth, Issue, Tool } from '@gantry/contract'
import type { EgressRule } from '../../egress/egress.ts'
import { namespaceFault } from '../../ids/tool-id.ts'
import { isObject } from '../../json/kinds.ts'
import { headersShape, idempotencyShape } from './binding.ts'
import { flag, listOf, mapOf, record, refuseConfig, rule, ruled, text, whole } from './check.ts'
import { authList, authShape } from './headers.ts'
import { type Base, baseFault, readBase, templateFault } from './parameters.ts'

/** An HTTP provider: where it is, how to prove who calls, and the tools it brings. */
export interface HttpOptions {
  /** Namespace of the tools it brings, and what a binding calls it. */
  readonly name: string
  /** `https://api.example.com/v1`; every request stays below it. */
  readonly baseUrl: string
  /** Further origins that the bindings of its tools may name; its credentials go there too. */
  readonly origins?: readonly string[]
  readonly auth?: HttpAuth | readonly HttpAuth[]
  /** Sent with every call; `secret:name` is put in at the last moment. A binding's own come before these. */
  readonly headers?: { readonly [name: string]: string }
  readonly query?: { readonly [name: string]: string }
  /** Whether its own origin may have a private address, while the executor has no egress rules that say so. */
  readonly private?: boolean
  /** Redirects to follow; 3 when absent. */
  readonly redirects?: number
  /** Bytes of an answer after decoding; the limit of the egress guard when absent. */
  readonly maxResponseBytes?: number
  /** The header that carries the idempotency key; `Idempotency-Key` when absent, none when false. */
  readonly idempotencyHeader?: string | false
  /** Below the base URL; asked by `health`, without credentials. The base path itself when absent. */
  readonly healthPath?: string
  /** Tools that it brings; each has a binding of kind `http`. */
  readonly tools?: readonly Tool[]
}

/** Options that were found sound, with their defaults. */
export interface Settings {
  readonly name: string
  readonly base: Base
  /** All origins that its requests may go to. */
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

const shape = record(
  {
    name: ruled(namespaceFault),
    baseUrl: ruled(baseFault),
    origins: listOf(ruled(originFault)),
    auth: authShape,
    headers: headersShape,
    query: mapOf(text),
    private: flag,
    redirects: whole(0, 20),
    maxResponseBytes: whole(1, Number.MAX_SAFE_INTEGER),
    idempotencyHeader: idempotencyShape,
    healthPath: ruled((path) => (/[{}]/.test(path) ? 'must hold no braces' : templateFault(path))),
    tools: listOf(rule(hasHttpBinding, 'must be a tool with a binding of kind http')),
  },
  ['name', 'baseUrl'],
)

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

/** Checks the options once; throws CONFIG_INVALID with every path that is wrong. */
export function readOptions(options: HttpOptions): Settings {
  const issues: readonly Issue[] = shape(options, '')
  refuseConfig('The configuration of an http backend', issues)
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

/** A tool as this backend brings it: in its namespace, and bound to it by name. */
function ownTool(name: string, tool: Tool): Tool {
  const backends = tool.backends.map((binding) => (binding.kind === 'http' ? { ...binding, name } : binding))
  return { ...tool, namespace: name, backends }
}

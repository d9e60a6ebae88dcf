import type { IncomingHttpHeaders } from 'node:http'
import type { McpSdk } from './sdk.ts'

/** Which way a request goes; see `dispatcher.ts`. */
export type RequestKind = 'direct' | 'listen' | 'sdk' | 'legacy'

export type Classify = (headers: IncomingHttpHeaders, body: unknown) => RequestKind

const revision = '2026-07-28'
const logLevelMeta = 'io.modelcontextprotocol/logLevel'
/** Envelopes that were found right; a client sends the same one with each request. */
const mostKnown = 1_000
const longestKnown = 2_000

/**
 * Decides by the SDK's own classification. Only a call about which nothing is doubtful goes `direct`: its headers say
 * what its body says, and it asks to hear nothing while it runs. Whatever is wrong with others, the SDK answers. What the
 * SDK found right in an envelope is remembered, because to look it through costs more than the rest of the way.
 */
export function createClassify(sdk: McpSdk): Classify {
  const known = new Set<string>()
  return (headers, body) => {
    const meta = plainMeta(headers, body)
    const text = meta === undefined ? '' : JSON.stringify(meta)
    if (meta !== undefined && known.has(text)) return 'direct'
    const outcome = sdk.classifyInboundRequest({ httpMethod: 'POST', ...saidBy(headers), body })
    if (outcome.kind === 'legacy') return 'legacy'
    if (outcome.kind !== 'modern' || outcome.messageKind !== 'request') return 'sdk'
    if (outcome.message.method === 'subscriptions/listen') return 'listen'
    if (meta === undefined || outcome.classification.revision !== revision) return 'sdk'
    if (known.size >= mostKnown) known.clear()
    if (text.length <= longestKnown) known.add(text)
    return 'direct'
  }
}

type Members = { readonly [member: string]: unknown }

/** The envelope of a call that is plain but for its envelope, or undefined. */
function plainMeta(headers: IncomingHttpHeaders, body: unknown): Members | undefined {
  if (!isObject(body)) return undefined
  const { jsonrpc, id, method, params } = body
  if (jsonrpc !== '2.0' || method !== 'tools/call' || !isId(id) || !isObject(params)) return undefined
  const { name, arguments: args = {}, _meta, ...more } = params
  if (!isObject(args) || !isObject(_meta) || Object.keys(more).length > 0) return undefined
  const same =
    headers['mcp-method'] === method && headers['mcp-name'] === name && headers['mcp-protocol-version'] === revision
  const hears = _meta.progressToken !== undefined || _meta[logLevelMeta] !== undefined
  return same && !hears && acceptsBoth(headers.accept) ? _meta : undefined
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isId(id: unknown): boolean {
  return typeof id === 'string' || Number.isSafeInteger(id)
}

function acceptsBoth(accept: string | undefined): boolean {
  return accept?.includes('application/json') === true && accept.includes('text/event-stream')
}

function saidBy(headers: IncomingHttpHeaders): { readonly [name: string]: string } {
  const said = {
    protocolVersionHeader: headers['mcp-protocol-version'],
    mcpMethodHeader: headers['mcp-method'],
    mcpNameHeader: headers['mcp-name'],
  }
  return Object.fromEntries(Object.entries(said).filter(([, value]) => typeof value === 'string')) as never
}

import type { Duplex } from 'node:stream'
import { type EgressOptions, settingsOf } from './options.ts'
import { parseRules } from './rules.ts'

/** An allowed origin: `https://api.example.com` or `https://*.example.com`, optionally with conditions. */
export interface EgressRule {
  /** Scheme, host and, unless it is the default, port. `*.` at the start of the host matches one or more labels. */
  readonly origin: string
  /** HTTP methods in upper case; all methods when absent. */
  readonly methods?: readonly string[]
  /** Allows the name to resolve to a private, loopback or otherwise special address; never to a metadata service. */
  readonly private?: boolean
}

export type EgressAllow = readonly (string | EgressRule)[]

/** The owner of a connection and its restrictions: rules apply to hosts, a scope to one connection. */
export interface EgressScope {
  /** The owner in events: `http:github`, `mcp:files`. */
  readonly owner: string
  /** The tenant for fair shares of connections. Absent for connections that serve all tenants. */
  readonly tenant?: string
  /** Origins from the configuration of the owner; allowed while there are no rules. */
  readonly own?: EgressAllow
  /** The egress list of a tool, which narrows the rules and never widens them. */
  readonly only?: readonly string[]
  /** How a refusal names `only`; `the egress list of the tool` when absent. */
  readonly onlyName?: string
  /** Replaces the rules, for an owner whose destinations are configured elsewhere; an empty list allows nothing. */
  readonly instead?: EgressAllow
  /** Ignores rules for private addresses, because the caller chose the destination. */
  readonly publicOnly?: boolean
}

/** Limits of one request that differ from the limits of the guard. */
export interface EgressBounds {
  /** Most redirects to follow, each checked like a first request; none when absent. */
  readonly redirects?: number
  /** Most bytes of the decoded body; the limit of the guard when absent or larger. */
  readonly maxBytes?: number
  /** Timeout until the response headers; 0 for none but the signal. */
  readonly headersMs?: number
  /** Timeout between two pieces of the body, for streams that pause; 0 for none but the signal. */
  readonly idleMs?: number
  /** The reader stops early, so a response with a larger Content-Length is not refused. */
  readonly partial?: boolean
}

export interface EgressRequest extends EgressScope, EgressBounds {
  readonly url: string | URL
  readonly method?: string
  readonly headers?: { readonly [name: string]: string }
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>
  readonly signal: AbortSignal
}

/** A response with a decoded (gzip, deflate, br, zstd) and size-limited body; read it or cancel it. */
export interface EgressResponse {
  readonly status: number
  readonly headers: Headers
  /** The Content-Type; cheaper than `headers`. */
  readonly contentType: string | undefined
  /** Whether an earlier request of a redirect chain may have had a side effect. */
  readonly changed: boolean
  /** The URL of the response, after redirects. */
  readonly url: string
  /** Chunks as they arrive; throws ToolError (RESULT_TOO_LARGE, BACKEND_FAILED, CANCELLED, TIMEOUT). */
  readonly body: AsyncIterable<Uint8Array>
  /** The whole body; `text` replaces invalid UTF-8. */
  bytes(): Promise<Uint8Array>
  text(): Promise<string>
  /** Discards a body that will not be read. */
  cancel(): void
}

/** The event of one connection attempt or refusal; never holds a path, a query or a header. */
export interface EgressEvent {
  readonly owner: string
  readonly scheme: string
  readonly host: string
  readonly port: number
  /** The dialled address, when there was one. */
  readonly address?: string
  readonly outcome: 'connected' | 'refused' | 'failed'
  /** Why it was refused or failed. */
  readonly reason?: string
}

/**
 * The egress guard: the only path to a network. It resolves every name once, checks every address of it, and dials a
 * checked address; redirects pass the same checks. Proxy environment variables are ignored.
 * - Concurrency: any number of requests at once; requests beyond the connection limits wait, round-robin by tenant.
 * - Cancellation: every wait ends with its signal.
 * - Errors: EGRESS_DENIED when the rules refuse, RATE_LIMITED over a limit, BACKEND_UNAVAILABLE when no connection was
 *   made, so that nothing was sent; BACKEND_FAILED after that.
 * - Ownership: the creator closes it.
 */
export interface Egress {
  request(request: EgressRequest): Promise<EgressResponse>
  /**
   * Rejects with EGRESS_DENIED when the request is certain to be refused: no rule allows it, or its host is a forbidden
   * IP address. Makes no DNS lookup and no connection, and does not spend the rate limit.
   */
  check(request: Pick<EgressRequest, 'url' | 'method'> & EgressScope): Promise<void>
  /** Opens a checked raw connection, with TLS when `tls` is given; the caller destroys it. */
  connect(target: EgressTarget): Promise<Duplex>
  /** A `fetch` for libraries that accept one; it follows redirects only up to `redirects` of the scope. */
  fetch(scope: EgressScope & EgressBounds): typeof fetch
  /** Replaces the rules for requests that are not yet sent; closes idle and raw connections that they forbid. */
  setRules(allow: EgressAllow): void
  close(): Promise<void>
}

export interface EgressTarget extends EgressScope {
  readonly host: string
  readonly port: number
  /** TLS options: trusted certificates, client certificate and ALPN protocols. */
  readonly tls?: {
    readonly ca?: string | Uint8Array
    readonly cert?: string | Uint8Array
    readonly key?: string | Uint8Array
    readonly alpn?: readonly string[]
    readonly servername?: string
  }
  /** The client does TLS itself, as behind a proxy: checked as `https`, dialled without TLS. */
  readonly tunnel?: true
  readonly signal: AbortSignal
}

/** Creates the guard on first use: most executors never connect, and the HTTP client is large. */
export function createEgress(options: EgressOptions): Egress {
  // Invalid options fail at start, not at the first call.
  settingsOf(options)
  let allow = options.allow
  let guard: Promise<Egress> | undefined
  let built: Egress | undefined
  const load = (): Promise<Egress> => {
    guard ??= import('./guard.ts').then(({ createEgressGuard }) => {
      built = createEgressGuard(allow === undefined ? options : { ...options, allow })
      return built
    })
    return guard
  }
  return {
    request: (request) => built?.request(request) ?? load().then((made) => made.request(request)),
    check: async (request) => (await load()).check(request),
    connect: async (target) => (await load()).connect(target),
    fetch: (scope) => async (input, init) => (await load()).fetch(scope)(input, init),
    setRules(rules: EgressAllow) {
      parseRules(rules, '/egress/allow')
      allow = rules
      // Synchronous, because the next request may follow at once; a guard that is created later uses `rules`.
      built?.setRules(rules)
    },
    close: async () => (await guard)?.close(),
  }
}

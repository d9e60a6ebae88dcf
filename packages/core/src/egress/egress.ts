import type { Duplex } from 'node:stream'

/** What may be reached: `https://api.example.com`, `https://*.example.com`, or the same with conditions. */
export interface EgressRule {
  /** Scheme, host and, unless it is the scheme's own, port. `*.` at the start of the host stands for any labels. */
  readonly origin: string
  /** HTTP methods, in capitals; all of them when absent. */
  readonly methods?: readonly string[]
  /** Lets the name lead to a private, loopback or otherwise special address; never to a metadata service. */
  readonly private?: boolean
}

export type EgressAllow = readonly (string | EgressRule)[]

/** Who asks, and how far: rules are for hosts, this is for one connection. */
export interface EgressScope {
  /** Who connects, for the events: `http:github`, `mcp:files`. */
  readonly owner: string
  /** For which tenant: where connections are scarce, tenants take turns. Absent for what serves all of them. */
  readonly tenant?: string
  /** Origins that the owner's own configuration names; they count as allowed while nobody gave rules. */
  readonly own?: EgressAllow
  /** A tool's own list, which narrows what the rules allow and never widens it. */
  readonly only?: readonly string[]
  /** In place of the rules, for an owner whose destinations are listed elsewhere; with an empty list it reaches nothing. */
  readonly instead?: EgressAllow
  /** Rules that let a name lead to a private address do not count: somebody else chose the destination. */
  readonly publicOnly?: boolean
}

/** How far one request may go, where that differs from the guard's own limits. */
export interface EgressBounds {
  /** Redirects to follow, each checked like a first request; none when absent. */
  readonly redirects?: number
  /** Bytes of the body after decoding, beyond which reading fails; the guard's own limit when absent or larger. */
  readonly maxBytes?: number
  /** Time until the headers, for answers that take long to begin; 0 for as long as the signal lets it. */
  readonly headersMs?: number
  /** Time between two pieces of the body, for streams that pause; 0 for as long as the signal lets it. */
  readonly idleMs?: number
  /** Whoever reads stops when he has enough, so an answer that says it is too large is not refused for that. */
  readonly partial?: boolean
}

export interface EgressRequest extends EgressScope, EgressBounds {
  readonly url: string | URL
  readonly method?: string
  readonly headers?: { readonly [name: string]: string }
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>
  readonly signal: AbortSignal
}

/** A response whose body is decoded (gzip, deflate, br, zstd) and bounded; read it or cancel it. */
export interface EgressResponse {
  readonly status: number
  readonly headers: Headers
  /** What `headers` says of the media type; there without the cost of them all. */
  readonly contentType: string | undefined
  /** Whether a request that led here by a redirect may have changed something. */
  readonly changed: boolean
  /** Where the response came from, after redirects. */
  readonly url: string
  /** Chunks as they come; throws ToolError (RESULT_TOO_LARGE, BACKEND_FAILED, CANCELLED, TIMEOUT). */
  readonly body: AsyncIterable<Uint8Array>
  /** The whole body; for text that is not UTF-8 the bad bytes are replaced. */
  bytes(): Promise<Uint8Array>
  text(): Promise<string>
  /** Lets go of a body that nobody will read. */
  cancel(): void
}

/** One attempt to leave, as its subscribers hear of it; never with a path, a query or a header. */
export interface EgressEvent {
  readonly owner: string
  readonly scheme: string
  readonly host: string
  readonly port: number
  /** The address that was dialled, when it came to that. */
  readonly address?: string
  readonly outcome: 'connected' | 'refused' | 'failed'
  /** Why not. */
  readonly reason?: string
}

/**
 * The one way out to a network. Every name is resolved once, every address of it is checked, and the checked address
 * is the one that is dialled; redirects pass through the same door. Proxy variables are not read.
 * - Concurrency: any number of requests at once; those beyond the connections that there may be wait, tenant by tenant.
 * - Cancellation: everything ends with its signal.
 * - Errors: EGRESS_DENIED for what the rules refuse, RATE_LIMITED when there are too many, BACKEND_UNAVAILABLE when
 *   no connection came about, so that nothing can have been sent; BACKEND_FAILED after that.
 * - Ownership: whoever created it closes it.
 */
export interface Egress {
  request(request: EgressRequest): Promise<EgressResponse>
  /**
   * Rejects with EGRESS_DENIED when such a request is certain to be refused: no rule allows it, or its host itself says
   * that it is an address that may not be reached. Looks nothing up, connects to nothing and takes nothing of a rate.
   */
  check(request: Pick<EgressRequest, 'url' | 'method'> & EgressScope): Promise<void>
  /** A checked connection for what is not HTTP/1.1, encrypted when `tls` is given; the caller destroys it. */
  connect(target: EgressTarget): Promise<Duplex>
  /** A `fetch` for libraries that take one; it follows no redirect by itself unless `redirects` says so. */
  fetch(scope: EgressScope & EgressBounds): typeof fetch
  /** Replaces the rules for what is not yet sent; idle and raw connections that they forbid are closed. */
  setRules(allow: EgressAllow): void
  close(): Promise<void>
}

export interface EgressTarget extends EgressScope {
  readonly host: string
  readonly port: number
  /** For an encrypted connection: certificates to trust and to show, protocols to offer. */
  readonly tls?: {
    readonly ca?: string | Uint8Array
    readonly cert?: string | Uint8Array
    readonly key?: string | Uint8Array
    readonly alpn?: readonly string[]
    readonly servername?: string
  }
  /** Somebody else encrypts, as a program does behind a proxy: judged as `https`, dialled without encryption of ours. */
  readonly tunnel?: true
  readonly signal: AbortSignal
}

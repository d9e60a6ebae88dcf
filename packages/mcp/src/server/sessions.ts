import { randomBytes } from 'node:crypto'
import type { Identity } from '@gantry/contract'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { admitToPool, type PoolAdmission, type PoolEntry } from '@gantry/core/internal/resilience/slots'
import type {
  McpHandlerRequestOptions,
  Server,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import type { McpSdk } from './sdk.ts'
import type { ToolListChanges } from './tool-list-changes.ts'

export interface SessionLimits {
  /** Limits of sessions: in total, per principal, and per tenant (three quarters of the total when absent). */
  readonly sessions: number
  readonly sessionsEach: number
  readonly sessionsPerTenant?: number
  /** A session ends after this idle time. */
  readonly idleMs: number
  /** Limits of `subscriptions/listen` streams: in total, per principal and per tenant. */
  readonly streams: number
  readonly streamsEach: number
  readonly streamsPerTenant?: number
}

export const defaultSessionLimits: SessionLimits = {
  sessions: 1_000,
  sessionsEach: 100,
  idleMs: 30 * 60_000,
  streams: 1_000,
  streamsEach: 50,
}

/**
 * Sessions of clients of revisions before 2026-07-28. A session belongs to the identity that opened it, with its
 * permissions: for any other identity, and for the same one once its permissions change, it does not exist. It exists
 * in this process only; a client whose session is lost opens another.
 */
export interface Sessions {
  post(request: Request, body: unknown, identity: Identity, how: McpHandlerRequestOptions): Promise<Response>
  /** GET, the stream of a session, or DELETE, its end. */
  other(request: Request, identity: Identity, how: McpHandlerRequestOptions): Promise<Response>
  /** Whether a request belongs to an open session of this identity. */
  holds(request: Request, identity: Identity): boolean
  readonly size: number
  close(): Promise<void>
}

interface Session extends Omit<PoolEntry, 'idle' | 'usedAt'> {
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly owner: string
  /** Requests and streams that are open. */
  open: number
  readonly idle: boolean
  usedAt: number
  end(): Promise<void>
}

export function createSessions(
  sdk: McpSdk,
  make: () => Server,
  changes: ToolListChanges,
  given: Partial<SessionLimits> = {},
): Sessions {
  const limits = { ...defaultSessionLimits, ...given }
  const sessions = new Map<string, Session>()
  const sweep = setInterval(
    () => {
      const oldest = performance.now() - limits.idleMs
      for (const session of sessions.values()) if (session.open === 0 && session.usedAt < oldest) void session.end()
    },
    Math.min(60_000, limits.idleMs),
  ).unref()

  const share = {
    total: limits.sessions,
    perTenant: limits.sessionsPerTenant ?? shareOf(limits.sessions, limits.sessionsEach),
    perPrincipal: limits.sessionsEach,
  }
  /** Sessions that are being opened and have no id yet. */
  const opening = new Set<PoolEntry>()
  const open = async (identity: Identity, owner: string): Promise<Session> => {
    const server = make()
    const transport = new sdk.WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomBytes(24).toString('base64url'),
      onsessioninitialized: (id) => void sessions.set(id, session),
      onsessionclosed: () => session.end(),
    })
    const unsubscribe = changes.subscribe(identity, () => void server.sendToolListChanged().catch(() => undefined))
    const session: Session = {
      transport,
      owner,
      tenant: identity.tenant,
      principal: identity.principal,
      open: 0,
      usedAt: performance.now(),
      get idle() {
        return this.open === 0
      },
      async end() {
        unsubscribe()
        if (transport.sessionId !== undefined) sessions.delete(transport.sessionId)
        await server.close().catch(() => undefined)
      },
    }
    await server.connect(transport)
    return session
  }
  const within = async (session: Session, request: Request, how: McpHandlerRequestOptions): Promise<Response> => {
    session.open += 1
    const done = (): void => {
      session.open -= 1
      session.usedAt = performance.now()
    }
    try {
      const response = await session.transport.handleRequest(request, how)
      return onBodyEnd(response, done)
    } catch (error) {
      done()
      throw error
    }
  }
  const found = (request: Request, identity: Identity): Session | undefined => {
    const session = sessions.get(request.headers.get('mcp-session-id') ?? '')
    return session?.owner === canonicalJson(identity) ? session : undefined
  }
  return {
    async post(request, body, identity, how) {
      if (request.headers.has('mcp-session-id')) {
        const session = found(request, identity)
        return session === undefined ? absent() : within(session, request, how)
      }
      if (!sdk.isInitializeRequest(body)) return refused(400, -32_000, 'Bad Request: Mcp-Session-Id header is required')
      const admission = admitToPool<PoolEntry | Session>([...sessions.values(), ...opening], identity, share)
      if (admission.kind === 'full') return poolFull(admission, 'sessions')
      const { tenant, principal } = identity
      const entry = { tenant, principal, idle: false, usedAt: performance.now() }
      opening.add(entry)
      try {
        if (admission.kind === 'replace' && 'end' in admission.victim) await admission.victim.end()
        const session = await open(identity, canonicalJson(identity))
        const response = await within(session, request, how)
        if (session.transport.sessionId === undefined) await session.end()
        return response
      } finally {
        opening.delete(entry)
      }
    },
    async other(request, identity, how) {
      const session = found(request, identity)
      if (session !== undefined) return within(session, request, how)
      if (request.headers.has('mcp-session-id')) return absent()
      return refused(request.method === 'GET' ? 405 : 400, -32_000, 'There is no session without Mcp-Session-Id.')
    },
    holds: (request, identity) => found(request, identity) !== undefined,
    get size() {
      return sessions.size
    },
    async close() {
      clearInterval(sweep)
      await Promise.all([...sessions.values()].map((session) => session.end()))
    },
  }
}

/** The same response; `done` is called when its body was read to the end or cancelled. */
export function onBodyEnd(response: Response, done: () => void): Response {
  if (response.body === null) {
    done()
    return response
  }
  let ended = false
  const end = (): void => {
    if (!ended) done()
    ended = true
  }
  const reader = response.body.getReader()
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done: last, value } = await reader.read()
        if (value !== undefined) controller.enqueue(value)
        if (!last) return
        end()
        controller.close()
      } catch (error) {
        end()
        controller.error(error)
      }
    },
    async cancel(reason) {
      end()
      await reader.cancel(reason)
    },
  })
  return new Response(body, { status: response.status, headers: response.headers })
}

/** A tenant's share of a pool: enough for one of its principals, and never all of it. */
export function shareOf(total: number, each: number): number {
  return Math.max(Math.min(each, total), Math.ceil(total * 0.75))
}

/** The caller's own limits are 429, because the caller can release what it holds; a full pool is 503. */
export function poolFull({ scope, most }: PoolAdmission<unknown> & { readonly kind: 'full' }, what: string): Response {
  const whose = { principal: ' of this caller', tenant: ' of this tenant', pool: '' }[scope]
  const text = `${most} ${what}${whose} are open and in use; close one, or try later.`
  return refused(scope === 'pool' ? 503 : 429, -32_000, text)
}

function absent(): Response {
  return refused(404, -32_001, 'Session not found')
}

export function refused(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status })
}

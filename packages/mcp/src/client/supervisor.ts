import { ToolError } from '@gantry/contract'
import type { BackendReport } from '@gantry/core/internal/backends/backend'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { backoffMs, pause } from '@gantry/core/internal/resilience/retry'
import type { Connection } from './connection.ts'
import type { McpSettings } from './settings.ts'

/** A connection that was up this long resets the count of failures. */
const stableMs = 10_000
/** A caller waits for the next attempt when it is due within this time, and is refused otherwise. */
const patienceMs = 1_000

interface SupervisorParts {
  readonly settings: McpSettings
  connect(signal: AbortSignal, ended: (reason: string) => void): Promise<Connection>
  report(report: BackendReport): void
  /** A connection was established; the first is number 1. */
  connected(connection: Connection, number: number): void
}

type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'connecting'; readonly attempt: Promise<Connection> }
  | { readonly kind: 'up'; readonly connection: Connection; readonly since: number }
  | { readonly kind: 'resting'; readonly until: number; readonly why: ToolError; readonly timer?: NodeJS.Timeout }
  | { readonly kind: 'closed' }

/**
 * Keeps at most one connection, and decides when to open the next one.
 *
 * States:
 * - `idle`: no connection was attempted yet, or the last one was dropped on purpose.
 * - `connecting`: one attempt runs, and every caller waits for it; an aborted caller does not end the attempt.
 * - `up`: calls use the connection.
 * - `resting`: the last attempt or connection failed; the delay doubles with every failure in a row, with jitter.
 * - `closed`: every caller is refused.
 *
 * Transitions:
 * - `idle` → `connecting`: a caller needs a connection.
 * - `connecting` → `up`: the attempt succeeds.
 * - `connecting` → `resting`: the attempt fails.
 * - `up` → `resting`: the connection ends by itself. After ten seconds in `up` the count of failures is reset.
 * - `up` → `idle`: `drop`.
 * - `resting` → `connecting`: by a timer, if the server is a program that was up before and fewer than `restart.attempts`
 *   failures occurred in a row; else when a caller arrives and the delay has nearly passed. An earlier caller is refused with
 *   the last failure.
 * - any → `closed`: `close`.
 */
export class Supervisor {
  readonly #parts: SupervisorParts
  readonly #life = new AbortController()
  #state: State = { kind: 'idle' }
  #failures = 0
  #connections = 0

  constructor(parts: SupervisorParts) {
    this.#parts = parts
  }

  /** The current connection, if there is one. */
  get current(): Connection | undefined {
    return this.#state.kind === 'up' ? this.#state.connection : undefined
  }

  /** An established connection; rejects with BACKEND_UNAVAILABLE, or with the signal's reason. */
  async need(signal: AbortSignal): Promise<Connection> {
    signal.throwIfAborted()
    if (this.#state.kind === 'up') return this.#state.connection
    return unlessAborted(this.#attempt(), signal)
  }

  /** Drops a broken connection, so that the next caller opens another at once. */
  drop(connection: Connection, reason: string): void {
    if (this.current !== connection) return
    this.#state = { kind: 'idle' }
    this.#parts.report({ kind: 'down', message: reason })
    connection.retire()
  }

  async close(): Promise<void> {
    const state = this.#state
    this.#state = { kind: 'closed' }
    this.#life.abort(new ToolError('BACKEND_UNAVAILABLE', `The MCP backend ${this.#parts.settings.name} is closed.`))
    if (state.kind === 'resting') clearTimeout(state.timer)
    if (state.kind === 'up') await state.connection.close()
    if (state.kind === 'connecting') await state.attempt.catch(() => undefined)
  }

  #attempt(): Promise<Connection> {
    const state = this.#state
    switch (state.kind) {
      case 'connecting':
        return state.attempt
      case 'up':
        return Promise.resolve(state.connection)
      case 'closed':
        return Promise.reject(this.#life.signal.reason)
      case 'resting': {
        const left = state.until - Date.now()
        if (left > patienceMs) return Promise.reject(refusal(state.why, left))
        clearTimeout(state.timer)
        return this.#connect(Math.max(0, left))
      }
      case 'idle':
        return this.#connect(0)
    }
  }

  #connect(delayMs: number): Promise<Connection> {
    const attempt = this.#open(delayMs)
    this.#state = { kind: 'connecting', attempt }
    // Waiters receive the failure; without any, the state keeps it.
    attempt.catch(() => undefined)
    return attempt
  }

  async #open(delayMs: number): Promise<Connection> {
    const { settings, connect, connected, report } = this.#parts
    if (delayMs > 0) await pause(delayMs, this.#life.signal)
    const limit = AbortSignal.timeout(Math.ceil(settings.timeoutMs))
    const signal = AbortSignal.any([limit, this.#life.signal])
    let connection: Connection | undefined
    try {
      connection = await connect(signal, (reason) => connection && this.#lost(connection, reason))
    } catch (cause) {
      throw this.#failed(limit.aborted ? timedOut(settings) : unavailable(settings, cause))
    }
    if (this.#life.signal.aborted) {
      await connection.close()
      throw this.#life.signal.reason
    }
    this.#state = { kind: 'up', connection, since: Date.now() }
    this.#connections += 1
    report({ kind: 'up', message: `The MCP server ${settings.name} is connected.` })
    connected(connection, this.#connections)
    const over = connection.ended()
    if (over !== undefined) this.#lost(connection, over)
    return connection
  }

  #failed(error: ToolError): ToolError {
    if (this.#state.kind !== 'closed') this.#rest(error)
    return error
  }

  #lost(connection: Connection, reason: string): void {
    const state = this.#state
    if (state.kind !== 'up' || state.connection !== connection) return
    if (Date.now() - state.since >= stableMs) this.#failures = 0
    this.#rest(new ToolError('BACKEND_UNAVAILABLE', reason))
  }

  #rest(why: ToolError): void {
    const { settings, report } = this.#parts
    this.#failures += 1
    // Jitter within the upper half keeps servers apart and the delays growing.
    const ms = backoffMs(settings.restart, this.#failures, () => 0.5 + Math.random() / 2)
    report({ kind: 'down', message: why.message })
    const rest = { kind: 'resting', until: Date.now() + ms, why } as const
    const alone = settings.location.kind === 'program' && this.#connections > 0
    if (!alone || this.#failures > settings.restart.attempts) {
      this.#state = rest
      return
    }
    report({ kind: 'restarting', message: `The MCP server ${settings.name} will be restarted in ${ms} ms.` })
    const timer = setTimeout(() => {
      if (this.#state.kind === 'resting') this.#connect(0)
    }, ms)
    timer.unref()
    this.#state = { ...rest, timer }
  }
}

function timedOut({ name, timeoutMs }: McpSettings): ToolError {
  const message = `The MCP server ${name} did not answer within ${timeoutMs} ms; allow more with \`timeoutMs\`.`
  return new ToolError('BACKEND_UNAVAILABLE', message)
}

/** No call can be sent before a connection exists, so every other failure becomes BACKEND_UNAVAILABLE. */
function unavailable({ name }: McpSettings, cause: unknown): ToolError {
  if (ToolError.is(cause)) return cause
  return new ToolError('BACKEND_UNAVAILABLE', `The MCP server ${name} could not be connected to.`, { cause })
}

function refusal(why: ToolError, leftMs: number): ToolError {
  const { code, message, retryable, stage } = why
  const details = { ...why.details, retryAfterMs: Math.ceil(leftMs) }
  return new ToolError(code, message, { cause: why.cause, details, retryable, stage, effect: 'none' })
}

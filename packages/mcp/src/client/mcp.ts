import { ToolError } from '@gantry/contract'
import type { Backend, BackendCall, BackendContext, BackendHost, Health } from '@gantry/core/internal/backends/backend'
import { isStepUp } from './authorizer.ts'
import { beforeAnyCall, failureOf, isForgotten, sendCall } from './call.ts'
import { type Connection, connect } from './connection.ts'
import { type Connector, createConnector } from './connector.ts'
import { listTools, translateTools } from './discovered-tools.ts'
import { Logs } from './logs.ts'
import type { McpOptions } from './options.ts'
import { loadSdk, type Sdk } from './sdk.ts'
import { type McpSettings, readOptions } from './settings.ts'
import { Supervisor } from './supervisor.ts'
import { createRefresher, keepSubscribed } from './tool-list-refresh.ts'

/**
 * The tools of one server of the Model Context Protocol, in the revisions 2024-11-05 to 2026-07-28.
 * Throws CONFIG_INVALID. Connects when its tools are first asked for or called; `mcp/supervisor.ts` says when again.
 * - Concurrency: any number of calls at once over one connection.
 * - Cancellation: the server is notified, and the call ends whether or not the server reacts.
 * - Errors: BACKEND_UNAVAILABLE for a call that was certainly not sent, BACKEND_FAILED for one that was.
 * - Ownership: it ends the program that it started, with its process group, when it is closed or the process exits. A
 *   program that leaves its group (`setsid`) stays; and when the host itself is killed, the program only sees its input
 *   close: most end then, and the rest cannot be forced to.
 */
export function mcp(options: McpOptions): Backend {
  const settings = readOptions(options)
  let server: McpServer | undefined
  const attached = (): McpServer => {
    if (server !== undefined) return server
    throw new ToolError('CONFIG_INVALID', `The MCP backend ${settings.name} belongs to no executor yet.`)
  }
  return {
    kind: 'mcp',
    name: settings.name,
    pinned: true,
    tidy: true,
    attach(host: BackendHost) {
      server = new McpServer(settings, host)
    },
    discover: async (signal) => attached().discover(signal),
    call: (call, context) => attached().call(call, context),
    health: async (signal): Promise<Health> => attached().health(signal),
    close: async (signal) => server?.close(signal),
  }
}

const mostStepUps = 2

/** One server in the hands of one executor. */
class McpServer {
  readonly #settings: McpSettings
  readonly #host: BackendHost
  readonly #life = new AbortController()
  readonly #kill = new AbortController()
  readonly #supervisor: Supervisor
  readonly #logs: Logs
  readonly #connector: Connector
  readonly #refresher = createRefresher(() => this.#refresh())
  /** Set once the server was found to be of the time before 2026-07-28. */
  #sdk: Sdk | undefined
  #legacy = false
  /** The list that was published last, as text. */
  #published: string | undefined
  /** Lists are read and published one after the other, so that an older one never replaces a newer. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(settings: McpSettings, host: BackendHost) {
    this.#settings = settings
    this.#host = host
    this.#logs = new Logs(settings.name, host)
    const times = { life: this.#life.signal, kill: this.#kill.signal }
    this.#connector = createConnector(settings, host, times, {
      log: (line) => this.#logs.line(line),
      toolsChanged: () => this.#refresher.request(),
    })
    this.#supervisor = new Supervisor({
      settings,
      connect: (signal, ended) => this.#connect(signal, ended),
      report: (report) => host.report(report),
      connected: (connection, number) => {
        // A server that was started again may have other tools.
        if (number > 1 && this.#published !== undefined) this.#refresher.request()
        void keepSubscribed(connection, () => this.#refresher.request(), this.#life.signal)
      },
    })
  }

  async discover(signal: AbortSignal): Promise<void> {
    await this.#publish(signal)
  }

  call(call: BackendCall, context: BackendContext): Promise<unknown> {
    const name = typeof call.binding.tool === 'string' ? call.binding.tool : call.tool.name
    if (!this.#settings.wants(name)) {
      throw new ToolError('NO_BACKEND', `The tool is kept out of the MCP backend ${this.#settings.name}.`, {
        stage: 'execute',
      })
    }
    return this.#use(context.signal, (connection) =>
      this.#connector.workFor(context.identity.tenant, () => sendCall(connection, this.#logs, name, call, context)),
    )
  }

  async health(signal: AbortSignal): Promise<Health> {
    try {
      const options = { signal, timeout: this.#settings.timeoutMs }
      await this.#use(signal, ({ client, modern }) => (modern ? client.discover(options) : client.ping(options)))
      return { status: 'up' }
    } catch (error) {
      return { status: 'down', message: error instanceof Error ? error.message : 'It gave no reason.' }
    }
  }

  /** Ends what it started in good order; when the signal aborts, at once. */
  async close(signal: AbortSignal): Promise<void> {
    const closed = new ToolError('BACKEND_UNAVAILABLE', `The MCP backend ${this.#settings.name} is closed.`)
    const kill = (): void => this.#kill.abort(closed)
    this.#refresher.stop()
    this.#life.abort(closed)
    signal.addEventListener('abort', kill, { once: true })
    try {
      if (signal.aborted) kill()
      await this.#supervisor.close()
    } finally {
      signal.removeEventListener('abort', kill)
    }
  }

  /** Kept, because importing again takes longer than much of a call. */
  async #library(): Promise<Sdk> {
    this.#sdk ??= await loadSdk()
    return this.#sdk
  }

  async #connect(signal: AbortSignal, ended: (reason: string) => void): Promise<Connection> {
    const sdk = await this.#library()
    const events = {
      toolsChanged: () => this.#refresher.request(),
      message: (level: string, data: unknown) => this.#logs.message(level, data),
    }
    const parts = { sdk, settings: this.#settings, events, legacy: this.#legacy, ended }
    try {
      const open = () => this.#connector.open(sdk, signal)
      const connection = await this.#authorized(sdk, () => connect({ ...parts, open }, signal))
      this.#legacy = !connection.modern
      return connection
    } catch (error) {
      // The server may have been renewed meanwhile.
      this.#legacy = false
      throw beforeAnyCall(failureOf(sdk, this.#settings.name, error, undefined))
    }
  }

  /** Uses the connection; when the server has forgotten the session, once more with a new one. */
  async #use<T>(signal: AbortSignal, work: (connection: Connection) => Promise<T>): Promise<T> {
    const sdk = this.#sdk ?? (await this.#library())
    let renewed = false
    while (true) {
      signal.throwIfAborted()
      const connection = this.#supervisor.current ?? (await this.#supervisor.need(signal))
      connection.begin()
      try {
        return await this.#authorized(sdk, () => work(connection))
      } catch (error) {
        const over = connection.ended()
        const forgotten = isForgotten(sdk, error, connection.client.transport?.sessionId !== undefined)
        const lost = forgotten ? `The MCP server ${this.#settings.name} has forgotten the session.` : connection.lost()
        if (lost !== undefined) this.#supervisor.drop(connection, lost)
        signal.throwIfAborted()
        if (!forgotten || renewed) throw failureOf(sdk, this.#settings.name, error, over)
        renewed = true
      } finally {
        connection.end()
      }
    }
  }

  /** A server that wants a token with more rights has done nothing yet, so the work is tried again with one. */
  #authorized<T>(sdk: Sdk, work: () => Promise<T>, steps = 0): Promise<T> {
    return work().catch(async (error: unknown) => {
      if (!isStepUp(sdk, error) || steps >= mostStepUps) throw error
      const { requiredScope: scope, resourceMetadataUrl } = error
      if (!(await this.#connector.authorizer?.stepUp({ scope, resourceMetadataUrl }))) throw error
      return this.#authorized(sdk, work, steps + 1)
    })
  }

  /** Reads the list again after the server said that it changed; true when it had. Never rejects. */
  async #refresh(): Promise<boolean> {
    const before = this.#published
    if (this.#supervisor.current === undefined) return false
    try {
      await this.#publish(this.#life.signal)
    } catch {
      if (!this.#life.signal.aborted) this.#logs.line('Its list of tools changed and could not be read.')
    }
    return this.#published !== before
  }

  #publish(signal: AbortSignal): Promise<void> {
    const mine = this.#turn.then(() => this.#publishNow(signal))
    this.#turn = mine.catch(() => undefined)
    return mine
  }

  async #publishNow(signal: AbortSignal): Promise<void> {
    const { name, place, timeoutMs, maxTools } = this.#settings
    await this.#supervisor.need(signal)
    const late = new ToolError(
      'BACKEND_UNAVAILABLE',
      `The MCP server ${name} did not list its tools in ${timeoutMs} ms.`,
    )
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(late), timeoutMs)
    const limit = AbortSignal.any([signal, deadline.signal])
    const listed = await this.#use(limit, async (connection) => ({
      ...(await listTools(connection, this.#settings, limit)),
      overHttp: place.kind === 'remote' && connection.modern,
    })).finally(() => clearTimeout(timer))
    const { tools, left } = translateTools(listed.tools, this.#settings, listed.overHttp)
    const text = JSON.stringify(tools)
    if (text === this.#published) return
    const { refused, quarantined } = await this.#host.publish(tools)
    this.#published = text
    for (const line of left) this.#logs.line(line)
    for (const one of refused) this.#logs.line(`The tool ${one.name} was left out: ${one.reason}`)
    if (listed.cut) this.#logs.line(`It has more than ${maxTools} tools; the rest was left out.`)
    const held = quarantined.length === 0 ? '' : `, ${quarantined.length} of them in quarantine`
    this.#host.report({ kind: 'changed', message: `The MCP server ${name} brings ${tools.length} tools${held}.` })
  }
}

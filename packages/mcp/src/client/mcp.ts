import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Backend, BackendCall, BackendContext, BackendHost, Health } from '@gantry/core/internal/backends/backend'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { isStepUp } from './authorizer.ts'
import { beforeAnyCall, failureOf, isForgotten, sendCall } from './call.ts'
import { type Connection, connect } from './connection.ts'
import { type Connector, createConnector } from './connector.ts'
import { createRefresher, keepSubscribed, listTools, translateTools } from './discovered-tools.ts'
import { Logs } from './logs.ts'
import { loadSdk, type Sdk } from './sdk.ts'
import { type McpOptions, type McpSettings, readOptions } from './settings.ts'
import { Supervisor } from './supervisor.ts'

/**
 * The tools of one server of the Model Context Protocol, in the revisions 2024-11-05 to 2026-07-28.
 * Throws CONFIG_INVALID. Connects on the first discovery or call; `supervisor.ts` describes reconnection.
 * - Concurrency: any number of calls at once over one connection.
 * - Cancellation: the server is notified, and the call ends whether or not the server reacts.
 * - Errors: BACKEND_UNAVAILABLE for a call that was certainly not sent, BACKEND_FAILED for one that was.
 * - Ownership: it ends the program that it started, with its process group, when it is closed or the process exits. A
 *   program that leaves its group (`setsid`) stays; and when the host itself is killed, the program only sees its input
 *   close: most exit then, and the others cannot be forced to.
 */
export function mcp(options: McpOptions): Backend {
  const settings = readOptions(options)
  let server: McpServer | undefined
  const attached = (): McpServer => {
    if (server !== undefined) return server
    throw new ToolError('CONFIG_INVALID', `The MCP backend ${settings.name} is not attached to an executor yet.`)
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
    missing: () => missingProgram(settings),
    close: async (signal) => server?.close(signal),
  }
}

const mostStepUps = 2

/** One server, attached to one executor. */
class McpServer {
  readonly #settings: McpSettings
  readonly #host: BackendHost
  readonly #life = new AbortController()
  readonly #kill = new AbortController()
  readonly #supervisor: Supervisor
  readonly #logs: Logs
  readonly #connector: Connector
  readonly #refresher = createRefresher(() => this.#refresh())
  /** Set once the server is known to support only revisions before 2026-07-28. */
  #sdk: Sdk | undefined
  #legacy = false
  /** The last published list, as text. */
  #published: string | undefined
  /** Lists are read and published one after the other, so that an older one never replaces a newer. */
  #publication: Promise<unknown> = Promise.resolve()

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
        // A restarted server may have other tools.
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
      throw new ToolError(
        'NO_BACKEND',
        `The options \`include\` and \`exclude\` of the MCP backend ${this.#settings.name} do not allow this tool.`,
        {
          stage: 'execute',
        },
      )
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

  /** Closes connections and programs gracefully, or at once when the signal aborts. */
  async close(signal: AbortSignal): Promise<void> {
    const closed = new ToolError('BACKEND_UNAVAILABLE', `The MCP backend ${this.#settings.name} is closed.`)
    this.#refresher.stop()
    this.#life.abort(closed)
    const leave = onAbort(signal, () => this.#kill.abort(closed))
    try {
      await this.#supervisor.close()
    } finally {
      leave()
    }
  }

  /** Cached, because importing again takes longer than much of a call. */
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
      // The connection may have been replaced meanwhile.
      this.#legacy = false
      throw beforeAnyCall(failureOf(sdk, this.#settings.name, error, undefined))
    }
  }

  /** Uses the connection; when the server has lost the session, retries once with a new one. */
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

  /** A server that requires a token with more scopes has processed nothing yet, so the request is retried with one. */
  #authorized<T>(sdk: Sdk, work: () => Promise<T>, steps = 0): Promise<T> {
    return work().catch(async (error: unknown) => {
      if (!isStepUp(sdk, error) || steps >= mostStepUps) throw error
      const { requiredScope: scope, resourceMetadataUrl } = error
      if (!(await this.#connector.authorizer?.stepUp({ scope, resourceMetadataUrl }))) throw error
      return this.#authorized(sdk, work, steps + 1)
    })
  }

  /** Reads the list again after a change notification; true when it changed. Never rejects. */
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
    const mine = this.#publication.then(() => this.#publishNow(signal))
    this.#publication = mine.catch(() => undefined)
    return mine
  }

  async #publishNow(signal: AbortSignal): Promise<void> {
    const { name, location, timeoutMs, maxTools } = this.#settings
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
      overHttp: location.kind === 'remote' && connection.modern,
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

/** Why the program of a server cannot be started, found without starting it; undefined when it is there. */
export function missingProgram({ location }: McpSettings): string | undefined {
  if (location.kind !== 'program') return undefined
  const { command, cwd = '.', env } = location
  const [program] = command
  if (statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true) return `starts in ${cwd}, which is not a folder`
  const path = env.PATH ?? process.env.PATH ?? ''
  const places = /[/\\]/.test(program)
    ? [isAbsolute(program) ? program : resolve(cwd, program)]
    : path.split(delimiter).map((folder) => join(resolve(cwd, folder), program))
  // The endings of programs on Windows are not searched.
  if (process.platform === 'win32' || places.some(isProgram)) return undefined
  return `starts the program ${program}, which is ${places.length === 1 ? 'not there or not executable' : 'not on the PATH'}`
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

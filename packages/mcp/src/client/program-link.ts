import { ToolError } from '@gantry/contract'
import type { JSONRPCMessage, JSONRPCNotification, Transport } from '@modelcontextprotocol/client'
import { type Child, startChild } from './child-process.ts'
import { perSecond } from './logs.ts'
import type { Link, Sdk } from './sdk.ts'
import type { ProgramPlace } from './settings.ts'

/** So many lines in a row that are no messages are forgiven; programs print to the wrong place. */
const mostGarbage = 1_000
const nonsense = `printed ${mostGarbage} lines that are no messages and was stopped.`
/** So many notifications in a second are handed on; a program can write faster than anybody can read. */
const mostNotifications = 1_000

export interface ProgramLinkOptions {
  readonly server: string
  readonly place: ProgramPlace
  /** With its secrets filled in. */
  readonly env: { readonly [name: string]: string }
  /** Redacted from everything that the program prints. */
  readonly hidden: readonly string[]
  readonly maxResponseBytes: number
  readonly sdk: Sdk
  /** Kills the program at once when it aborts. */
  readonly kill: AbortSignal
  log(line: string): void
  /** The server says that its tools changed. */
  toolsChanged(): void
}

/**
 * One program and the line to it. The SDK's own transport neither bounds what it forgives nor ends what the program
 * started, so this one stands in its place; by having `pid` and `stderr` it is taken for a pipe, as it is one.
 */
export function programLink(options: ProgramLinkOptions): Link {
  let child: Child | undefined
  let reason: string | undefined
  let garbage = 0

  const budget = perSecond(mostNotifications)
  const onLine = (line: string): void => {
    if (line.trim() === '') return
    const message = parse(line)
    if (message === undefined) {
      garbage += 1
      if (garbage > mostGarbage) child?.fail(`The MCP server ${options.server} ${nonsense}`)
      return
    }
    garbage = 0
    if (!isNotification(message)) deliver(transport, message)
    else if (message.method === 'notifications/tools/list_changed') options.toolsChanged()
    else if (budget()) deliver(transport, message)
  }

  const transport: Transport & { readonly stderr: null; readonly pid: number | null } = {
    stderr: null,
    get pid() {
      return child?.pid ?? null
    },
    async start() {
      const { server, env, hidden, maxResponseBytes, kill, log } = options
      const { command, cwd } = options.place
      child = await startChild({
        server,
        command,
        env,
        hidden,
        maxLineBytes: maxResponseBytes,
        kill,
        ...(cwd === undefined ? {} : { cwd }),
        onLine,
        onLog: log,
        onEnd: (why) => {
          reason ??= why
          transport.onclose?.()
        },
      })
    },
    send(message) {
      if (child !== undefined) return child.write(options.sdk.serializeMessage(message))
      const stopped = `The MCP server ${options.server} is not running.`
      return Promise.reject(new ToolError('BACKEND_UNAVAILABLE', stopped))
    },
    async close() {
      await child?.stop()
    },
  }
  return { transport, ended: () => reason }
}

/** A message as far as the SDK does not check it itself, or undefined. */
function parse(line: string): JSONRPCMessage | undefined {
  try {
    const value: unknown = JSON.parse(line)
    const sound = typeof value === 'object' && value !== null && 'jsonrpc' in value && value.jsonrpc === '2.0'
    return sound ? (value as JSONRPCMessage) : undefined
  } catch {
    return undefined
  }
}

function isNotification(message: JSONRPCMessage): message is JSONRPCNotification {
  return 'method' in message && !('id' in message)
}

/** What a message does to its reader must not end the host. */
function deliver(transport: Transport, message: JSONRPCMessage): void {
  try {
    transport.onmessage?.(message)
  } catch (error) {
    transport.onerror?.(error instanceof Error ? error : new Error('A message could not be read.'))
  }
}

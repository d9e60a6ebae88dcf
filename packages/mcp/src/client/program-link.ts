import { ToolError } from '@gantry/contract'
import type { JSONRPCMessage, JSONRPCNotification, Transport } from '@modelcontextprotocol/client'
import { type Child, startChild } from './child-process.ts'
import { perSecond } from './logs.ts'
import type { Link, Sdk } from './sdk.ts'
import type { ProgramLocation } from './settings.ts'

/** The limit of consecutive lines that are not messages; some programs print to stdout by mistake. */
const mostGarbage = 1_000
const nonsense = `printed ${mostGarbage} lines that are not messages and was stopped.`
/** The limit of notifications per second; a program can write faster than a client can read. */
const mostNotifications = 1_000

export interface ProgramLinkOptions {
  readonly server: string
  readonly location: ProgramLocation
  /** With resolved secrets. */
  readonly env: { readonly [name: string]: string }
  /** Redacted from everything that the program prints. */
  readonly hidden: readonly string[]
  readonly maxResponseBytes: number
  readonly sdk: Sdk
  /** Kills the program at once when it aborts. */
  readonly kill: AbortSignal
  log(line: string): void
  /** The server announces that its tools changed. */
  toolsChanged(): void
}

/**
 * One program and the link to it. It replaces the SDK's own transport, which neither limits invalid lines nor ends child
 * processes of the program. With `pid` and `stderr` the SDK recognises it as a stdio transport.
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
      const { command, cwd } = options.location
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

/** A message, checked as far as the SDK does not check it itself, or undefined. */
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

/** A message whose handler throws must not end the host. */
function deliver(transport: Transport, message: JSONRPCMessage): void {
  try {
    transport.onmessage?.(message)
  } catch (error) {
    transport.onerror?.(error instanceof Error ? error : new Error('A message could not be read.'))
  }
}

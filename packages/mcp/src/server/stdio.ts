import { pipeline, type Readable, type Writable } from 'node:stream'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Server } from '@modelcontextprotocol/server'
import { messageCheck, messageLines, mostBufferBytes } from './message-lines.ts'
import { loadSdk } from './sdk.ts'
import { createMcpParts, createMcpServer, type McpServerOptions } from './server.ts'
import { createToolListChanges } from './tool-list-changes.ts'

export interface StdioOptions extends McpServerOptions {
  readonly input: Readable
  readonly output: Writable
  readonly note: (text: string) => void
  readonly signal: AbortSignal
  /** The interval at which the tool list is checked for changes. */
  readonly lookMs?: number
}

/** Serves one client over stdio from a host in this process. Resolves when it disconnects or the signal aborts. */
export async function serveOverStdio({ input, output, note, signal, lookMs, ...options }: StdioOptions): Promise<void> {
  const [sdk, { serveStdio, StdioServerTransport }] = await Promise.all([
    loadSdk(),
    import('@modelcontextprotocol/server/stdio'),
  ])
  const parts = createMcpParts(options)
  const changes = createToolListChanges(parts.surface, lookMs)
  const { identity } = options
  const make = (era: 'legacy' | 'modern'): Server => {
    const server = createMcpServer(sdk, parts, era)
    // A server that only answers a version probe is never connected, and sends no notification.
    if (identity !== undefined)
      changes.subscribe(identity, () => void server.sendToolListChanged().catch(() => undefined))
    return server
  }
  const lines = messageLines({
    refuse: (answer) => void transport.send(answer as never).catch(() => undefined),
    isMessage: messageCheck(sdk),
  })
  const transport = new StdioServerTransport(lines, output, { maxBufferSize: mostBufferBytes })
  pipeline(input, lines, () => undefined)
  const handle = serveStdio(({ era }) => make(era), { transport, onerror: ({ message }) => note(message) })
  // The transport closes when the input ends.
  const closed = new Promise<void>((resolve) => {
    const { onclose } = transport
    transport.onclose = () => {
      onclose?.()
      resolve()
    }
  })
  const stopped = new Promise<void>((resolve) => onAbort(signal, resolve))
  try {
    await Promise.race([closed, stopped])
  } finally {
    changes.close()
    await handle.close()
    lines.destroy()
  }
}

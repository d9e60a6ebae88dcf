import { resolve } from 'node:path'
import { Writable } from 'node:stream'
import { contractVersion } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import {
  type ClientConfig,
  type ClientConnection,
  clientConfig,
  clientNames,
} from '@gantry/mcp/internal/server/client-configs'
import type { LoadedConfig } from '@gantry/service/internal/config/config'
import { findConfig } from '@gantry/service/internal/config/load'
import { watchConfig } from '@gantry/service/internal/config/reload'
import { dataFolder, owner } from '@gantry/service/internal/config/service-settings'
import { usageError } from '../errors.ts'
import { findService } from '../find-service.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { withExecutor } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Serves MCP to the client that started this process; nothing else is ever written to stdout. */
export const serveMcp: Command = async ({ options }, io) => {
  const trace = (text: string): void => void (options.verbose === true && io.err(`${safeLine(text)}\n`))
  const ends = { input: process.stdin, output: outputOf(io), note: trace, signal: io.signal }
  const found = options.local === true ? undefined : await findService(options, io, 'or-here')
  if (found !== undefined && found.missing === undefined) {
    trace(`Asking the service at ${found.url}.`)
    const { bridge } = await import('@gantry/mcp/internal/server/bridge')
    await bridge({ url: found.url.replace(/(?<!\/)\/+$/, ''), key: found.key, ...ends })
    return 0
  }
  await withExecutor(options, io, async (gantry, loaded, again) => {
    const {
      options: { identity = owner },
      service,
    } = loaded
    const [{ serveOverStdio }, { executorHost }] = await Promise.all([
      import('@gantry/mcp/internal/server/stdio'),
      import('@gantry/mcp/internal/server/host'),
    ])
    const unfollow = followFolder(gantry, loaded, again, (text) => io.err(`warning: ${safeLine(text)}\n`))
    const host = executorHost(gantry)
    await serveOverStdio({ host, version: contractVersion, identity, ...service.mcp, ...ends }).finally(unfollow)
  })
  return 0
}

/** Stdout as a stream: what the process has under that name leads to stderr, so that no tool can write between. */
function outputOf(io: Io): Writable {
  return new Writable({
    decodeStrings: false,
    write(text, _encoding, done) {
      io.out(String(text)).then(() => done(), done)
    },
  })
}

/** Prints what a client is configured with; it writes no file of another program. */
export const printMcpConfig: Command = async ({ operands: [client], options }, io) => {
  const named = clientNames.find((name) => name === client)
  if (client !== undefined && named === undefined) {
    throw usageError(client, `There is no client ${client}; there are ${clientNames.join(', ')}.`)
  }
  const transport = options.http === true ? await overHttp(options, io) : byProgram(options, io)
  const names = named === undefined ? clientNames : [named]
  const configs = names.map((name) => ({ client: name, ...clientConfig(name, transport) }))
  if (options.json === true) await printJson(client === undefined ? configs : configs[0], io)
  else await io.out(`${configs.map(paragraph).join('\n\n')}\n`)
  return 0
}

function paragraph({ title, file, text, notes }: ClientConfig): string {
  return [`# ${title}: ${file}`, ...notes.map((note) => `# ${note}`), text].join('\n')
}

/** The program that runs now. The client starts it in a folder of its own, so that every path is a whole one. */
function byProgram({ config, data }: OptionValues, io: Io): ClientConnection {
  const { environment, folder } = io
  const [, script = 'gantry'] = process.argv
  const file = findConfig(config, environment, folder)
  const place = data === undefined ? undefined : resolve(folder, data)
  const kept = place ?? (file === undefined ? dataFolder(folder, environment) : undefined)
  const where = [...(file === undefined ? [] : ['--config', file]), ...(kept === undefined ? [] : ['--data', kept])]
  return { kind: 'stdio', command: process.execPath, args: [script, 'mcp', ...where] }
}

async function overHttp(options: OptionValues, io: Io): Promise<ClientConnection> {
  const found = await findService(options, io)
  if (found.missing === undefined) {
    return {
      kind: 'http',
      url: `${found.url.replace(/(?<!\/)\/+$/, '')}/mcp`,
      key: options['with-key'] === true ? found.key : undefined,
    }
  }
  if (options['with-key'] === true) throw usageError('--with-key', `${found.missing} Start it to have its key.`)
  io.err(`${found.missing} The address is the one that gantry serve takes by default.\n`)
  return { kind: 'http', url: 'http://127.0.0.1:7420/mcp', key: undefined }
}

/**
 * Keeps the tools that an executor has of the folder of tools those that are in it; all else stays as it was made. What
 * cannot be read is reported, and what is in use then stays. Returns the function that ends it.
 */
export function followFolder(
  gantry: Pick<Executor, 'update' | 'unregister'>,
  loaded: LoadedConfig,
  again: () => Promise<LoadedConfig>,
  warn: (text: string) => void,
): () => void {
  const path = loaded.toolsFolder?.path
  if (path === undefined) return () => undefined
  let before = idsOf(loaded)
  let last: Promise<void> = Promise.resolve()
  const follow = async (): Promise<void> => {
    const next = await again()
    for (const tool of next.toolsFolder?.tools ?? []) gantry.update(tool)
    const now = idsOf(next)
    for (const id of before) if (!now.has(id)) gantry.unregister(id)
    before = now
    for (const warning of next.warnings) warn(warning)
  }
  // One at a time, so that what was read first cannot come to be used last.
  const inTurn = (): Promise<void> => {
    last = last.then(follow).catch((error: unknown) => warn(error instanceof Error ? error.message : String(error)))
    return last
  }
  return watchConfig(undefined, () => path, inTurn)
}

function idsOf({ toolsFolder }: LoadedConfig): ReadonlySet<string> {
  return new Set(toolsFolder?.loaded.flatMap(({ tools }) => tools))
}

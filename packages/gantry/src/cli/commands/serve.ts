import { join, resolve } from 'node:path'
import { packagesOf, packageWarnings } from '@gantry/service/internal/config/package-problems'
import type { LoadedConfig } from '@gantry/service/serve'
import { causeOf } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { safeJson, safeLine } from '../terminal.ts'

/** Runs the service until a signal comes, and until what it does then is done. */
export const serveCalls: Command = async ({ options }, io) => {
  const person = io.watched && options.json !== true
  const output = serviceOutput(io, person)
  io.endOnUncaught(output.fatal)
  let first: LoadedConfig | undefined
  const say: ServiceOutput['say'] = (message, fields) => {
    if (person || /^(?:debug|info)$/.test(first?.service.logLevel ?? 'info')) output.say(message, fields)
  }
  const { loadConfig, serve } = await import('@gantry/service/serve')
  const request = {
    folderMemory: new Map(),
    environment: withOptions(options, io),
    folder: io.folder,
    signal: io.signal,
    ...(options.config === undefined ? {} : { file: options.config }),
  }
  const load = async (): Promise<LoadedConfig> => {
    const loaded = await loadConfig({ ...request, fresh: first !== undefined })
    first ??= loaded
    const packages = packageWarnings(await packagesOf(loaded.options, false))
    for (const warning of [...loaded.warnings, ...packages]) say(`warning: ${warning}`)
    return loaded
  }
  await serve({
    load,
    say,
    log: { write: output.log },
    ready: (url) => void (first !== undefined && announce(first, url, options, io, say)),
    signal: hangup(io),
  })
  return 0
}

/** Options go over the environment, as that goes over the file. */
function withOptions({ port, host, data, role }: OptionValues, { environment, folder }: Io): NodeJS.ProcessEnv {
  return {
    ...environment,
    ...(port === undefined ? {} : { GANTRY_PORT: String(port) }),
    ...(host === undefined ? {} : { GANTRY_HOST: host }),
    ...(data === undefined ? {} : { GANTRY_DATA: resolve(folder, data) }),
    ...(role === undefined ? {} : { GANTRY_ROLES: role.join(',') }),
  }
}

/** At a terminal SIGHUP ends the service; elsewhere it reloads the configuration. */
function hangup({ signal, watched }: Io): AbortSignal {
  if (!watched) return signal
  const closed = new AbortController()
  process.once('SIGHUP', () => closed.abort())
  return AbortSignal.any([signal, closed.signal])
}

/** Says on stdout that it takes calls, and on stderr what to do with it. */
async function announce(
  loaded: LoadedConfig,
  url: string | undefined,
  options: OptionValues,
  io: Io,
  say: ServiceOutput['say'],
): Promise<void> {
  const { data, roles } = loaded.service
  if (options.json === true) {
    const place = url === undefined ? {} : { url, keyFile: join(data, 'key') }
    await printJson({ state: 'ready', ...place, data, roles, pid: process.pid }, io)
  } else await io.out(`${url === undefined ? '' : `listening on ${url}\n`}ready\n`)
  const message = io.watched ? 'To try it, in another terminal (Ctrl-C here ends it):' : 'ready'
  if (url !== undefined) say(message, serveHints(url, loaded, options, io))
}

/** How a service logs on stderr: lines of JSON for programs, short lines at a terminal. */
export interface ServiceOutput {
  /** A line of the log, as the service writes it. */
  log(line: string): void
  say(message: string, fields?: { readonly [name: string]: string }): void
  /** An error that ends the process. */
  fatal(thrown: unknown): void
}

export function serviceOutput(io: Pick<Io, 'err'>, person: boolean): ServiceOutput {
  const log = person ? (line: string): void => io.err(shortLine(line)) : io.err
  const write = (level: string, msg: string, fields: object): void => {
    log(`${safeJson({ level, time: new Date().toISOString(), pid: process.pid, ...fields, msg })}\n`)
  }
  return {
    log,
    say(message, fields = {}) {
      if (!person) return write('info', message, fields)
      const lines = [message, ...Object.values(fields).map((value) => `  ${value}`)]
      io.err(lines.map((line) => `${safeLine(line)}\n`).join(''))
    },
    fatal(thrown) {
      const { name, message } = causeOf(thrown, 1)
      write('fatal', 'uncaught error outside of a call; the service ends, because its state is unknown', {
        error: `${name}: ${message}`,
        ...(thrown instanceof Error && !person ? { stack: String(thrown.stack).slice(0, 10_000) } : {}),
      })
    },
  }
}

/** `12:30:01 info call ended tool=demo:add status=ok` of a line of JSON; one that is not is shown as it is. */
function shortLine(line: string): string {
  try {
    const { level, time, pid: _pid, msg, ...fields } = JSON.parse(line)
    const facts = Object.entries(fields).map(([name, value]) => `${name}=${plain(value)}`)
    return `${safeLine([String(time).slice(11, 19), level, msg, ...facts].join(' '))}\n`
  } catch {
    return `${safeLine(line.trimEnd())}\n`
  }
}

function plain(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** A first command to try. The key is named by its file, because typed and logged texts can be read by others. */
export function serveHints(
  url: string,
  { service, demo }: LoadedConfig,
  { data, config }: OptionValues,
  { environment }: Pick<Io, 'environment'>,
): { readonly [name: string]: string } {
  // Started by npm, the user has no `gantry` on the PATH.
  const gantry = environment.npm_command === undefined ? 'gantry' : 'npx gantry'
  const same = [optionText('data', data), optionText('config', config)].join('')
  const curl = `curl -s ${url}/v1`
  const key = `-H "Authorization: Bearer $(cat ${quoted(join(service.data, 'key'))})"`
  if (!demo) return { tools: `${gantry} tools${same}`, calls: `${gantry} calls${same}`, curl: `${curl}/tools ${key}` }
  const call = `-H 'Content-Type: application/json' -d '{"tool":"demo:add","args":{"a":5,"b":3}}'`
  return {
    run: `${gantry} run demo:add '{"a":5,"b":3}'${same}`,
    stream: `${gantry} stream demo:countdown '{"from":3}'${same}`,
    calls: `${gantry} calls${same}`,
    curl: `${curl}/calls ${key} ${call}`,
  }
}

function optionText(name: string, value: string | undefined): string {
  return value === undefined ? '' : ` --${name} ${quoted(value)}`
}

/** A path as a word of a shell. */
function quoted(path: string): string {
  return /^[\w./@:+-]+$/.test(path) ? path : `'${safeLine(path).replaceAll("'", `'\\''`)}'`
}

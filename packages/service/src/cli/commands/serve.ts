import { join, resolve } from 'node:path'
import type { LoadedConfig } from '@gantry/service/serve'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { serviceVoice, type Voice } from '../serve-voice.ts'
import { safeLine } from '../terminal.ts'

/** Runs the service until a signal comes, and until what it does then is done. */
export const execute: Command = async ({ options }, io) => {
  const voice = serviceVoice(io, io.watched && options.json !== true)
  io.endOnStray(voice.fatal)
  const { loadConfig, serve } = await import('@gantry/service/serve')
  const request = {
    environment: withOptions(options, io),
    folder: io.folder,
    signal: io.signal,
    ...(options.config === undefined ? {} : { file: options.config }),
  }
  let first: LoadedConfig | undefined
  const load = async (): Promise<LoadedConfig> => {
    const loaded = await loadConfig({ ...request, fresh: first !== undefined })
    first ??= loaded
    for (const warning of loaded.warnings) voice.say(`warning: ${warning}`)
    return loaded
  }
  await serve({
    load,
    say: voice.say,
    log: { write: voice.log },
    ready: (url) => void (first !== undefined && announce(first, url, options, io, voice)),
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

/** A service at a terminal ends with it; elsewhere the same signal means that the configuration is read again. */
function hangup({ signal, watched }: Io): AbortSignal {
  if (!watched) return signal
  const closed = new AbortController()
  process.once('SIGHUP', () => closed.abort())
  return AbortSignal.any([signal, closed.signal])
}

async function announce(
  { service, demo }: LoadedConfig,
  url: string | undefined,
  options: OptionValues,
  io: Io,
  voice: Voice,
): Promise<void> {
  const { data, roles } = service
  const keyFile = join(data, 'key')
  if (options.json === true) {
    const place = url === undefined ? {} : { url, keyFile }
    await printJson({ state: 'ready', ...place, data, roles, pid: process.pid }, io)
  } else await io.out(`${url === undefined ? '' : `listening on ${url}\n`}ready\n`)
  if (url !== undefined) voice.say('ready; to try it:', hints(url, keyFile, demo, options))
}

/** What to try first. The key is named by its file: what is typed or logged stays where others can read it. */
function hints(url: string, keyFile: string, demo: boolean, { data }: OptionValues): { [name: string]: string } {
  const folder = data === undefined ? '' : ` --data ${quoted(data)}`
  const curl = `curl -s ${url}/v1`
  const key = `-H "Authorization: Bearer $(cat ${quoted(keyFile)})"`
  if (!demo) return { tools: `gantry tools${folder}`, curl: `${curl}/tools ${key}` }
  const call = `-H 'Content-Type: application/json' -d '{"tool":"demo:add","args":{"a":5,"b":3}}'`
  return {
    run: `gantry run demo:add '{"a":5,"b":3}'${folder}`,
    calls: `gantry calls${folder}`,
    curl: `${curl}/calls ${key} ${call}`,
  }
}

/** A path as a word of a shell. */
function quoted(path: string): string {
  return /^[\w./@:+-]+$/.test(path) ? path : `'${safeLine(path).replaceAll("'", `'\\''`)}'`
}

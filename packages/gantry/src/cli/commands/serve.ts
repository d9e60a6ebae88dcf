import { join, resolve } from 'node:path'
import type { LoadedConfig } from '@gantry/service/serve'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { serveHints } from '../serve-hints.ts'
import { serviceVoice, type Voice } from '../serve-voice.ts'

/** Runs the service until a signal comes, and until what it does then is done. */
export const execute: Command = async ({ options }, io) => {
  const person = io.watched && options.json !== true
  const voice = serviceVoice(io, person)
  io.endOnStray(voice.fatal)
  let first: LoadedConfig | undefined
  const say: Voice['say'] = (message, fields) => {
    if (person || /^(?:debug|info)$/.test(first?.service.logLevel ?? 'info')) voice.say(message, fields)
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
    for (const warning of loaded.warnings) say(`warning: ${warning}`)
    return loaded
  }
  await serve({
    load,
    say,
    log: { write: voice.log },
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

/** A service at a terminal ends with it; elsewhere the same signal means that the configuration is read again. */
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
  say: Voice['say'],
): Promise<void> {
  const { data, roles } = loaded.service
  if (options.json === true) {
    const place = url === undefined ? {} : { url, keyFile: join(data, 'key') }
    await printJson({ state: 'ready', ...place, data, roles, pid: process.pid }, io)
  } else await io.out(`${url === undefined ? '' : `listening on ${url}\n`}ready\n`)
  const message = io.watched ? 'To try it, in another terminal (Ctrl-C here ends it):' : 'ready'
  if (url !== undefined) say(message, serveHints(url, loaded, options, io))
}

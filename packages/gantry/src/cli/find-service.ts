import { lstatSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Client } from '@gantry/client'
import { ToolError } from '@gantry/contract'
import { findConfig } from '@gantry/service/internal/config/load'
import { addressFile, readAddress } from '@gantry/service/internal/config/service-files'
import { dataFolder } from '@gantry/service/internal/config/service-settings'
import type { Io } from './io.ts'
import { defaultLogin, loginOf } from './logins.ts'
import type { OptionValues } from './option-table.ts'

/** The service that the command uses, or why there is none. */
export type FoundService =
  | { readonly client: Client; readonly url: string; readonly key: string | undefined; readonly missing?: undefined }
  | { readonly missing: string /** Whether an address file names one. */; readonly expected: boolean }

/** Timeout of the probe of `/healthz`. */
const probeMs = 2_000
/** Retries for half a minute in total, long enough for a crashed service to restart. */
const retries = 8

/**
 * The service that a command is for: the one that GANTRY_URL names, else the one that runs on the data folder of the
 * command's configuration, else the default of `gantry login`. That one is not used by a command that can run in this
 * process (`or-here`) with a configuration, whose tools it lacks. Rejects when a named service cannot be used; a found
 * service that does not respond is ignored.
 */
export async function findService(
  options: OptionValues,
  io: Io,
  need: 'service' | 'or-here' = 'service',
): Promise<FoundService> {
  const { environment, folder } = io
  const file = findConfig(options.config, environment, folder)
  const place = placeOf(options, file, io)
  const named = environment.GANTRY_URL
  const written = isOwn(addressFile(place)) ? await readAddress(place) : undefined
  const found = written !== undefined && isNear(written.url) ? written : undefined
  if (named !== undefined && named !== '') {
    // The key in the data folder is sent only to the service that made it.
    const own = found?.url === named.replace(/(?<!\/)\/+$/, '')
    const stored = async () => (own ? keyIn(place) : storedKey(named, environment))
    const key = environment.GANTRY_KEY || (await stored())
    if (environment.GANTRY_KEY && isExposed(named) && environment.GANTRY_PLAIN_HTTP !== '1') {
      const message = `GANTRY_URL is plain http to another machine, where others on the way can read GANTRY_KEY. Use https, or set GANTRY_PLAIN_HTTP=1 to send it all the same.`
      throw new ToolError('CONFIG_INVALID', message)
    }
    const client = await clientOf(named, key)
    if (await answers(named, io.signal)) return { client, url: named, key }
    throw new ToolError('SERVICE_UNAVAILABLE', `The service at ${named}, which GANTRY_URL names, does not answer.`)
  }
  if (found === undefined) {
    const chosen =
      options.data !== undefined || options.config !== undefined || (need === 'or-here' && file !== undefined)
    const login = chosen ? undefined : await defaultLogin(environment)
    if (login === undefined) return { missing: `No service runs on ${place}.`, expected: false }
    if (await answers(login.url, io.signal)) return { ...login, client: await clientOf(login.url, login.key) }
    const remedy = 'gantry logout forgets it; --local runs a tool in this process.'
    throw new ToolError(
      'SERVICE_UNAVAILABLE',
      `The service at ${login.url}, of gantry login, does not answer. ${remedy}`,
    )
  }
  const { url, pid, config } = found
  if (config !== (file ?? null)) {
    const other = config === null ? 'without a configuration' : `with ${config}`
    const missing = `The service on ${place} runs ${other}; this command runs ${file === undefined ? 'without one' : `with ${file}`}.`
    return { missing, expected: true }
  }
  if (!isAlive(pid) || !(await answers(url, io.signal))) {
    return { missing: `The service at ${url}, which ${addressFile(place)} names, does not answer.`, expected: true }
  }
  // GANTRY_KEY is sent only to the service that GANTRY_URL names.
  const key = await keyIn(place)
  return { client: await clientOf(url, key), url, key }
}

/** The data folder that a command is for. */
export async function dataPlace(options: OptionValues, io: Io): Promise<string> {
  return placeOf(options, findConfig(options.config, io.environment, io.folder), io)
}

function placeOf({ data }: OptionValues, file: string | undefined, { environment, folder }: Io): string {
  if (data !== undefined) return resolve(folder, data)
  return dataFolder(file === undefined ? folder : dirname(file), environment)
}

/**
 * A file written by another user must not decide where calls and the key are sent. The service writes its address file
 * readable by its owner only; a file from a checkout or an archive has other permissions and is ignored.
 */
function isOwn(file: string): boolean {
  const found = lstatSync(file, { throwIfNoEntry: false })
  if (found === undefined || !found.isFile() || (found.mode & 0o077) !== 0) return false
  return process.getuid === undefined || found.uid === process.getuid()
}

/** Whether a request to the URL, and the key in it, crosses a network unencrypted. */
function isExposed(url: string): boolean {
  return URL.canParse(url) && new URL(url).protocol === 'http:' && !isNear(url)
}

/** A service found by its address file must be on loopback. */
function isNear(url: string): boolean {
  try {
    const { protocol, hostname } = new URL(url)
    return /^https?:$/.test(protocol) && /^(?:localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0|\[::\])$/.test(hostname)
  } catch {
    return false
  }
}

// Loaded on demand, because most commands run in this process.
async function clientOf(url: string, key: string | undefined): Promise<Client> {
  const { createClient } = await import('@gantry/client')
  return createClient({ url, retries, ...(key === undefined ? {} : { key }) })
}

/** The key of `gantry login` for a URL, if it has one. */
async function storedKey(url: string, environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  return URL.canParse(url) ? (await loginOf(url, environment))?.key : undefined
}

async function keyIn(place: string): Promise<string | undefined> {
  const { readApiKey } = await import('@gantry/service/internal/config/service-files')
  return readApiKey(join(place, 'key'))
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Whether a service responds at a URL. Probed before anything is submitted, so that no call runs twice. */
export async function answers(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    const time = AbortSignal.any([signal, AbortSignal.timeout(probeMs)])
    const response = await fetch(`${url.replace(/(?<!\/)\/+$/, '')}/healthz`, { signal: time, redirect: 'error' })
    const body: { readonly alive?: unknown } = JSON.parse(await response.text())
    return response.ok && body.alive === true
  } catch {
    return false
  }
}

import { isAbsolute, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { isAbsent, readPrivate, replacePrivate, whileLocked } from '@gantry/core/internal/files/private-file'

/** A service that `gantry login` has stored, and its key. */
export interface Login {
  readonly url: string
  readonly key: string
}

/** All stored services. The default is used where no other service is named or runs. */
export interface Logins {
  readonly default?: string
  readonly services: ReadonlyMap<string, string>
}

const mostBytes = 1_048_576
const nothing: Logins = { services: new Map() }

/** The file of stored services in the configuration folder of the user; undefined when the environment names none. */
export function loginsFile({ XDG_CONFIG_HOME: config, HOME: home }: NodeJS.ProcessEnv): string | undefined {
  if (config !== undefined && isAbsolute(config)) return join(config, 'gantry', 'logins.json')
  return home !== undefined && isAbsolute(home) ? join(home, '.config', 'gantry', 'logins.json') : undefined
}

/** A URL without a slash at its end, so that one service has one entry. */
export function serviceUrl(url: string): string {
  return new URL(url).href.replace(/(?<!\/)\/+$/, '')
}

/** The stored services. Throws CONFIG_INVALID for a file that others may read or that has another form. */
export async function readLogins(environment: NodeJS.ProcessEnv): Promise<Logins> {
  const file = loginsFile(environment)
  if (file === undefined) return nothing
  try {
    const found = await readPrivate(file, mostBytes)
    if (found.state !== 'read')
      throw unusable(file, found.state === 'too-long' ? 'is too long' : 'is not a regular file')
    const { mode, uid } = found.stats
    if (process.getuid !== undefined && uid !== process.getuid()) throw unusable(file, 'belongs to another user')
    if ((mode & 0o077) !== 0) throw unusable(file, 'can be read or written by others; chmod 600 it')
    return parsed(file, found.bytes.toString('utf8'))
  } catch (error) {
    if (isAbsent(error)) return nothing
    throw ToolError.is(error) ? error : unusable(file, 'cannot be read', error)
  }
}

/** Changes the stored services under a lock, and replaces the file, which only its owner can read. */
export async function changeLogins(
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
  change: (before: Logins) => Logins,
): Promise<string> {
  const file = loginsFile(environment)
  if (file === undefined) {
    throw new ToolError('CONFIG_INVALID', 'There is no folder for the key: set HOME or XDG_CONFIG_HOME.')
  }
  await whileLocked(file, { signal, code: 'CONFIG_INVALID' }, async () => {
    const after = change(await readLogins(environment))
    const services = Object.fromEntries([...after.services].map(([url, key]) => [url, { key }]))
    await replacePrivate(file, `${JSON.stringify({ ...after, services }, undefined, 2)}\n`)
  })
  return file
}

/** The stored service of this URL. */
export async function loginOf(url: string, environment: NodeJS.ProcessEnv): Promise<Login | undefined> {
  const wanted = serviceUrl(url)
  const key = (await readLogins(environment)).services.get(wanted)
  return key === undefined ? undefined : { url: wanted, key }
}

/** The service that is used where none is named. */
export async function defaultLogin(environment: NodeJS.ProcessEnv): Promise<Login | undefined> {
  const { default: url, services } = await readLogins(environment)
  const key = url === undefined ? undefined : services.get(url)
  return url === undefined || key === undefined ? undefined : { url, key }
}

function parsed(file: string, text: string): Logins {
  const value: unknown = JSON.parse(text)
  if (!isObject(value) || !isObject(value.services)) throw unusable(file, 'holds no services')
  const services = Object.entries(value.services).flatMap(([url, service]): [string, string][] =>
    isObject(service) && isText(service.key) ? [[url, service.key]] : [],
  )
  return { ...(isText(value.default) ? { default: value.default } : {}), services: new Map(services) }
}

function unusable(file: string, why: string, cause?: unknown): ToolError {
  const message = `${file} ${why}. gantry login writes it anew once it is removed.`
  return new ToolError('CONFIG_INVALID', message, cause === undefined ? {} : { cause })
}

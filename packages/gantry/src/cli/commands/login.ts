import { ToolError } from '@gantry/contract'
import { usageError } from '../errors.ts'
import { answers } from '../find-service.ts'
import type { Command, Io } from '../io.ts'
import { changeLogins, readLogins, serviceUrl } from '../logins.ts'
import type { OptionValues } from '../option-table.ts'
import { factsText, printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

const mostKeyBytes = 16_384

/** Stores the key of a service after the service has accepted it; without a URL lists the stored services. */
export const logIn: Command = async ({ operands: [url], options }, io) => {
  if (url === undefined) return listLogins(options, io)
  const named = checkedUrl(url, options)
  if (!(await answers(named, io.signal))) {
    throw new ToolError('SERVICE_UNAVAILABLE', `No Gantry service answers at ${named}.`)
  }
  const key = await readKey(named, options, io)
  const { createClient } = await import('@gantry/client')
  // The client follows no redirect, so the key reaches no other host.
  const identity = await createClient({ url: named, key, retries: 1 }).whoAmI({ signal: io.signal })
  const file = await changeLogins(io.environment, io.signal, ({ services }) => ({
    default: named,
    services: new Map(services).set(named, key),
  }))
  const { principal, tenant, permissions, roles = [], tools } = identity
  if (options.json === true) {
    await printJson(
      { url: named, file, principal, tenant, permissions, roles, ...(tools === undefined ? {} : { tools }) },
      io,
    )
  } else {
    const facts = { service: named, principal, tenant, roles: listText(roles), permissions: listText(permissions) }
    await io.out(factsText({ ...facts, tools: tools === undefined ? 'all' : listText(tools) }))
    io.err(`The key is in ${safeLine(file)}. gantry logout removes it.\n`)
  }
  return 0
}

/** Removes the key of one stored service, of the default one when none is named. */
export const logOut: Command = async ({ operands: [named], options }, io) => {
  const before = await readLogins(io.environment)
  const url = named === undefined ? before.default : parsedUrl(named)
  if (url === undefined || !before.services.has(url)) {
    const known = [...before.services.keys()]
    const list = known.length === 0 ? '' : ` There are ${known.map(safeLine).join(', ')}.`
    throw usageError('url', `No key is stored${named === undefined ? '' : ` for ${named}`}.${list}`)
  }
  await changeLogins(io.environment, io.signal, ({ default: first, services }) => {
    const left = new Map([...services].filter(([each]) => each !== url))
    return { ...(first === undefined || first === url ? {} : { default: first }), services: left }
  })
  if (options.json === true) await printJson({ removed: url }, io)
  else await io.out(`Removed the key of ${safeLine(url)}. It stays valid until it is revoked: gantry keys revoke.\n`)
  return 0
}

async function listLogins(options: OptionValues, io: Io): Promise<number> {
  const { default: first, services } = await readLogins(io.environment)
  const items = [...services.keys()].map((url) => ({ url, default: url === first }))
  if (options.json === true) await printJson({ items }, io)
  else if (items.length === 0) await io.out('No services; gantry login <url> stores the key of one.\n')
  else await io.out(items.map((item) => `${safeLine(item.url)}${item.default ? ' (default)' : ''}\n`).join(''))
  return 0
}

function listText(items: readonly string[]): string {
  return items.length === 0 ? 'none' : items.join(', ')
}

function parsedUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const plain = url !== undefined && url.username === '' && url.password === '' && url.search === '' && url.hash === ''
  if (plain && /^https?:$/.test(url.protocol)) return serviceUrl(text)
  throw usageError('url', 'The URL of a service is http or https, without a user, a query and a fragment.')
}

function checkedUrl(text: string, options: OptionValues): string {
  const url = parsedUrl(text)
  const { protocol, hostname } = new URL(url)
  const near = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
  if (protocol === 'https:' || near || options['plain-http'] === true) return url
  const message = `${url} is plain http to another machine, where others on the way can read the key. Use https, or --plain-http to send it all the same.`
  throw usageError('url', message)
}

async function readKey(url: string, options: OptionValues, io: Io): Promise<string> {
  const text =
    options['key-stdin'] === true
      ? await io.readInput(mostKeyBytes)
      : await io.askSecret(`Key for ${safeLine(url)}: `, mostKeyBytes)
  const key = text.trim()
  if (key !== '') return key
  throw usageError('key', 'No key was given: type it, or pipe it in with --key-stdin.')
}

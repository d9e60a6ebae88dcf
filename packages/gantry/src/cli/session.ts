import { resolve } from 'node:path'
import type { Client } from '@gantry/client'
import { ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { LoadedConfig } from '@gantry/service/internal/config/config'
import { loadConfig } from '@gantry/service/internal/config/load'
import { reading } from '@gantry/service/internal/config/problem'
import { toolsByTenant } from '@gantry/service/internal/config/tenant-limits'
import { type Caller, localCaller, remoteCaller, warnOfSources } from './caller.ts'
import { usageError } from './errors.ts'
import { findService } from './find-service.ts'
import type { Io } from './io.ts'
import type { OptionName, OptionValues } from './option-table.ts'
import { safeBlock, safeLine } from './terminal.ts'

/**
 * Opens an executor as configured, passes it to `work`, and always closes it. `again` reloads the configuration, for
 * commands that run long enough to see it change.
 */
export async function withExecutor<T>(
  { config, data, verbose }: OptionValues,
  io: Io,
  work: (gantry: Executor, loaded: LoadedConfig, again: () => Promise<LoadedConfig>) => Promise<T>,
): Promise<T> {
  const { folder, signal } = io
  const environment = data === undefined ? io.environment : { ...io.environment, GANTRY_DATA: resolve(folder, data) }
  const named = config === undefined ? {} : { file: config }
  const request = { environment, folder, signal, folderMemory: new Map(), ...named }
  const loaded = await loadConfig(request)
  for (const warning of loaded.warnings) io.err(`warning: ${safeLine(warning)}\n`)
  const { builtinTools, createExecutor, demoTools } = await import('@gantry/tools')
  const { tenantTools } = await import('@gantry/core/internal/policies/tenant-tools')
  const shipped = [...(loaded.builtins ? builtinTools(loaded.builtinOptions) : []), ...(loaded.demo ? demoTools() : [])]
  const tools = [...shipped, ...(loaded.options.tools ?? [])]
  // One command runs one tool, so no sandbox is started ahead unless the configuration requests it.
  const runtimes = { pool: false, ...loaded.options.runtimes } as const
  const made = reading(loaded.file, () => createExecutor({ ...loaded.options, runtimes, tools }))
  const ofTenants = toolsByTenant(loaded.service.tenants)
  const gantry = ofTenants === undefined ? made : made.under({ policy: tenantTools(ofTenants) })
  gantry.on('tool:quarantined', ({ id }) => {
    io.err(`warning: ${safeLine(id)} changed at its server and may not be called; see gantry tools diff\n`)
  })
  const threw = new Set<string>()
  gantry.on('call:threw', ({ tool, name, message, stack }) => {
    if (verbose === true) io.err(`${safeLine(tool)} threw ${safeBlock(stack ?? `${name}: ${message}`)}\n`)
    else threw.add(tool)
  })
  try {
    return await work(gantry, loaded, () => loadConfig({ ...request, fresh: true }))
  } finally {
    await gantry.close()
    for (const tool of threw) io.err(`${safeLine(tool)} threw an error; --verbose shows where.\n`)
  }
}

/** The same, after discovery of every backend; backends that could not be reached are named on stderr. */
export function withSources<T>(
  options: OptionValues,
  io: Io,
  work: (gantry: Executor, loaded: LoadedConfig) => Promise<T>,
): Promise<T> {
  return withExecutor(options, io, async (gantry, loaded) => {
    await warnOfSources(gantry, io)
    return work(gantry, loaded)
  })
}

/** Work that only an executor in this process can do. */
const onlyHere: readonly OptionName[] = ['backend', 'resume']

/** Passes `work` the service that runs for this command, or else an executor in this process. */
export async function withCaller<T>(options: OptionValues, io: Io, work: (caller: Caller) => Promise<T>): Promise<T> {
  return withEither(options, io, {
    remote: (client) => work(remoteCaller(client)),
    local: (gantry) => work(localCaller(gantry, io)),
  })
}

/** The same, with separate functions for a service and for an executor. */
export async function withEither<T>(
  options: OptionValues,
  io: Io,
  ways: {
    readonly remote: (client: Client) => Promise<T>
    readonly local: (gantry: Executor, loaded: LoadedConfig) => Promise<T>
  },
): Promise<T> {
  const client = await remoteOf(options, io)
  return client === undefined ? withExecutor(options, io, ways.local) : ways.remote(client)
}

async function remoteOf(options: OptionValues, io: Io): Promise<Client | undefined> {
  if (options.local === true) return undefined
  const here = onlyHere.find((name) => options[name] !== undefined)
  if (here !== undefined) {
    if (!io.environment.GANTRY_URL) return undefined
    throw usageError(`--${here}`, `A service does not know --${here}; add --local to do it in this process.`)
  }
  const found = await findService(options, io, 'or-here')
  const trace = (note: string): void => void (options.verbose === true && io.err(`${safeLine(note)}\n`))
  if (found.missing !== undefined) {
    if (found.expected) trace(`${found.missing} Running it in this process.`)
    return undefined
  }
  trace(`Asking the service at ${found.url}.`)
  return found.client
}

/** Passes `work` the service that runs for this command; SERVICE_UNAVAILABLE when there is none. */
export async function withService<T>(options: OptionValues, io: Io, work: (client: Client) => Promise<T>): Promise<T> {
  const found = await findService(options, io)
  if (found.missing === undefined) return work(found.client)
  const elsewhere = 'gantry login, or GANTRY_URL and GANTRY_KEY, name one that runs elsewhere.'
  throw new ToolError('SERVICE_UNAVAILABLE', `${found.missing} ${elsewhere}`)
}

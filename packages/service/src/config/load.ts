import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Issue, JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { ConfigDocument, ConfigRequest, LoadedConfig } from './config.ts'
import { readEnvironment, unknownVariables, wrongEnvironment } from './environment.ts'
import { configError, readingLater } from './problem.ts'

/**
 * Finds, reads and checks the configuration: `--config`, then GANTRY_CONFIG, then the nearest file; the environment
 * overrides it. Throws CONFIG_INVALID with every problem. Readers and checkers are imported only when there is a file.
 */
export async function loadConfig(request: ConfigRequest): Promise<LoadedConfig> {
  const { environment, folder, signal } = request
  const overrides = readEnvironment(environment)
  const warnings = await unknownVariables(overrides.unknown)
  const file = findConfig(request.file, environment, folder)
  if (file === undefined) {
    const issues = [...overrides.issues, ...(await environmentIssues(overrides.document))]
    const document = issues.length > 0 ? undefined : await environmentDocument(overrides.document)
    if (document === undefined) throw configError(undefined, wrongEnvironment, issues)
    const { runtimeOptions } = await import('./compose.ts')
    const { sharedDigest } = await import('./shared-settings.ts')
    const { dataFolder, executorPart, serviceSettings } = await import('./service-settings.ts')
    const settings = serviceSettings(document, dataFolder(folder, environment))
    const options = { ...executorPart(document), runtimes: runtimeOptions({}, folder, environment) }
    const shared = sharedDigest(document)
    return { file, builtins: true, demo: true, options, service: settings, shared, warnings }
  }
  const { content, digest } = await readWhole(file, signal, request.fresh === true)
  const { composeConfig } = await import('./compose.ts')
  const composed = await readingLater(file, () => composeConfig(file, content, overrides, request))
  const { folderWarnings } = await import('./compose.ts')
  return { ...composed, digest, warnings: [...warnings, ...folderWarnings(composed.toolsFolder)] }
}

/** The document of the environment alone; the schema is imported only when a variable is set. */
async function environmentDocument(variables: JsonObject): Promise<ConfigDocument | undefined> {
  const { tracing, ...others } = variables
  // Without an endpoint, OTEL_ headers and certificates may be meant for another program.
  const document = isObject(tracing) && tracing.endpoint !== undefined ? variables : others
  return Object.keys(document).length === 0 ? {} : (await import('./schema.ts')).readDocument(document)
}

/** Variables are checked as they are read; those of brokers are also checked together. */
async function environmentIssues(document: JsonObject): Promise<readonly Issue[]> {
  const { brokerIssues, brokerKeys } = await import('./broker-settings.ts')
  if (!brokerKeys.some((key) => document[key] !== undefined)) return []
  const { configIssues } = await import('./schema.ts')
  return [...configIssues(document), ...brokerIssues(document)]
}

const mostReadings = 20

/** Reads a file again until it did not change during the read, so that the digest matches its content. */
async function readWhole(
  file: string,
  signal: AbortSignal,
  fresh: boolean,
): Promise<{ readonly content: unknown; readonly digest: string }> {
  for (let reading = 1; reading <= mostReadings; reading++) {
    const digest = digestOf(file)
    const content = await readConfig(file, signal, fresh)
    // Only a `fresh` read evaluates the module again; otherwise Node returns the cached module.
    if (!fresh || digestOf(file) === digest) return { content, digest }
  }
  throw configError(file, `The configuration ${file} changed while it was read; the next reload reads it again.`, [])
}

/** An unreadable file has a fixed digest; reading it reports the error. */
function digestOf(file: string): string {
  try {
    return createHash('sha256').update(readFileSync(file)).digest('hex')
  } catch {
    return 'unreadable'
  }
}

async function readConfig(file: string, signal: AbortSignal, fresh: boolean): Promise<unknown> {
  if (/\.(?:json|ya?ml)$/.test(file)) return (await import('./read-data.ts')).readDataConfig(file)
  if (/\.[mc]?[jt]s$/.test(file)) return (await import('./read-module.ts')).readModuleConfig(file, signal, fresh)
  throw configError(file, `The configuration ${file} must end in .ts, .mjs, .js, .json, .yaml or .yml.`, [])
}

const configNames: readonly string[] = ['ts', 'mjs', 'js', 'json', 'yaml', 'yml'].map(
  (extension) => `gantry.config.${extension}`,
)

/** The configuration file: the named one, that of GANTRY_CONFIG, or the nearest in this folder or above. */
export function findConfig(
  named: string | undefined,
  environment: NodeJS.ProcessEnv,
  folder: string,
): string | undefined {
  const variable = environment.GANTRY_CONFIG
  if (named !== undefined) return existing(resolve(folder, named), '--config')
  if (variable !== undefined && variable !== '') return existing(resolve(folder, variable), 'GANTRY_CONFIG')
  return nearestConfig(resolve(folder))
}

function existing(file: string, source: string): string {
  if (isFile(file)) return file
  const named = `${source} names ${file}, which`
  try {
    statSync(file)
  } catch (error) {
    const missing = isObject(error) && error.code === 'ENOENT'
    throw missing
      ? configError(file, `${named} does not exist.`, [])
      : configError(file, `${named} cannot be read.`, [], error)
  }
  throw configError(file, `${named} is not a file.`, [])
}

/** Searches upwards to the root of the repository or of the file system. */
function nearestConfig(start: string): string | undefined {
  for (let folder = start; ; folder = dirname(folder)) {
    const found = configNames.map((name) => join(folder, name)).filter(isFile)
    const [first, second] = found
    if (first !== undefined && second !== undefined) {
      throw configError(undefined, `There is more than one configuration: ${found.join(' and ')}. Keep one.`, [])
    }
    if (first !== undefined) return owned(first)
    if (statSync(join(folder, '.git'), { throwIfNoEntry: false }) !== undefined) return undefined
    if (dirname(folder) === folder) return undefined
  }
}

/** A configuration runs as code, so one of another user, as in a shared folder, is used only when it is named. */
function owned(file: string): string {
  const me = process.getuid?.()
  const owner = statSync(file).uid
  if (me === undefined || owner === me || owner === 0) return file
  throw configError(
    file,
    `${file} belongs to another user (uid ${owner}). Name it with --config to use it all the same.`,
    [],
  )
}

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true
  } catch {
    return false
  }
}

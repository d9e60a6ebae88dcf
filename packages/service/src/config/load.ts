import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Issue, JsonObject } from '@gantry/contract'
import type { ConfigRequest, LoadedConfig } from './config.ts'
import { findConfig } from './discover.ts'
import { readEnvironment, unknownVariables, wrongEnvironment } from './environment.ts'
import { configError, readingLater } from './problem.ts'

/**
 * Finds, reads and checks the configuration: `--config`, then GANTRY_CONFIG, then the nearest file; the environment
 * over it. Throws CONFIG_INVALID with every problem. Readers and checkers are loaded only when there is a file.
 */
export async function loadConfig(request: ConfigRequest): Promise<LoadedConfig> {
  const { environment, folder, signal } = request
  const overrides = readEnvironment(environment)
  const warnings = await unknownVariables(overrides.unknown)
  const file = findConfig(request.file, environment, folder)
  if (file === undefined) {
    const { document } = overrides
    const issues = [...overrides.issues, ...(await environmentIssues(document))]
    if (issues.length > 0) throw configError(undefined, wrongEnvironment, issues)
    const { runtimeOptions } = await import('./compose.ts')
    const { dataFolder, serviceSettings, withoutService } = await import('./service-settings.ts')
    const settings = serviceSettings(document, dataFolder(folder, environment))
    const options = { ...withoutService(document), runtimes: runtimeOptions({}, folder, environment) }
    return { file, builtins: true, demo: true, options, service: settings, warnings }
  }
  const { said, digest } = await readWhole(file, signal, request.fresh === true)
  const { composeConfig } = await import('./compose.ts')
  const composed = await readingLater(file, () => composeConfig(file, said, overrides, request))
  const { folderWarnings } = await import('./tools-folder.ts')
  return { ...composed, digest, warnings: [...warnings, ...folderWarnings(composed.toolsFolder)] }
}

/** Most variables are checked as they are read; those of brokers have to fit together. */
async function environmentIssues(document: JsonObject): Promise<readonly Issue[]> {
  const { brokerIssues, brokerKeys } = await import('./broker-settings.ts')
  if (!brokerKeys.some((key) => document[key] !== undefined)) return []
  const { configIssues } = await import('./schema.ts')
  return [...configIssues(document), ...brokerIssues(document)]
}

const mostReadings = 20

/** Reads a file that nobody changed meanwhile, so that the digest is of what was read. */
async function readWhole(
  file: string,
  signal: AbortSignal,
  fresh: boolean,
): Promise<{ readonly said: unknown; readonly digest: string }> {
  for (let reading = 1; reading <= mostReadings; reading++) {
    const digest = digestOf(file)
    const said = await readConfig(file, signal, fresh)
    // Only a fresh reading reads again; the first one of a process is what its module said then.
    if (!fresh || digestOf(file) === digest) return { said, digest }
  }
  throw configError(file, `The configuration ${file} changes faster than it can be read; it is read again later.`, [])
}

/** What cannot be read is told by those who read it. */
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

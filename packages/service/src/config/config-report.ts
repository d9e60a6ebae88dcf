import type { Issue } from '@gantry/contract'
import { type ConfigSummary, checkLoaded } from './check-config.ts'
import type { ConfigRequest, LoadedConfig } from './config.ts'
import type { ConfigFinding } from './config-secrets.ts'
import { configFindings } from './config-warnings.ts'
import { loadConfig } from './load.ts'
import { packageFindings } from './package-problems.ts'
import { isToolError } from './problem.ts'

/** Everything that is wrong with a configuration. */
export interface ConfigReport {
  /** Null when there is no file. */
  readonly file: string | null
  /** What stops the start. */
  readonly problems: readonly ConfigFinding[]
  /** What works otherwise than it looks, or fails at a call. */
  readonly warnings: readonly ConfigFinding[]
  /** What was loaded, when there is no problem. */
  readonly summary?: ConfigSummary
}

/** A configuration is loaded again without the keys that are wrong, at most this often. */
const mostLoads = 12

/**
 * Finds all problems of a configuration at once: keys with a problem are left out and the rest is loaded, so that one
 * problem hides no other. Runs no tool and connects to nothing. Rejects only for errors that are not of the configuration.
 */
export async function reportConfig(request: ConfigRequest): Promise<ConfigReport> {
  const problems: ConfigFinding[] = []
  const known = new Set<string>()
  const add = (issues: readonly (Issue & { readonly remedy?: string })[]): void => {
    for (const { path, message, remedy = remedyOf(path, message) } of issues) {
      const line = `${path} ${message}`
      if (!known.has(line)) problems.push({ path, message, remedy })
      known.add(line)
    }
  }
  const omitted = new Set<string>()
  const environment = { ...request.environment }
  let file: string | undefined
  let loaded: LoadedConfig | undefined
  for (let count = 0; loaded === undefined && count < mostLoads; count += 1) {
    try {
      loaded = await loadConfig({ ...request, environment, omit: omitted })
    } catch (error) {
      if (!isToolError(error) || error.code !== 'CONFIG_INVALID') throw error
      const issues = error.details?.issues ?? [{ path: pathOf(error.message), message: withCause(error) }]
      file ??= fileOf(error.details?.file)
      add(issues)
      if (!leaveOut(issues, omitted, environment)) break
    }
  }
  if (loaded === undefined) return { file: file ?? null, problems, warnings: [] }
  const { summary, issues } = await checkLoaded(loaded, request.signal, omitted)
  add(issues)
  const { problems: further, warnings } = await configFindings(loaded, { omitted, environment })
  add(further)
  const ofPackages = packageFindings(summary.packages ?? [])
  const found = { file: loaded.file ?? file ?? null, problems, warnings: [...warnings, ...ofPackages] }
  return problems.length > 0 ? found : { ...found, summary }
}

/** Leaves out the variables, members and keys of the issues; false when nothing more can be left out. */
function leaveOut(issues: readonly Issue[], omitted: Set<string>, environment: NodeJS.ProcessEnv): boolean {
  let changed = false
  for (const { path, message } of issues) {
    const [, variable] = variableForm.exec(message) ?? []
    const place = path === '' ? undefined : nextPlace(path, omitted)
    if (variable !== undefined && environment[variable] !== undefined) {
      delete environment[variable]
      changed = true
    } else if (variable === undefined && place !== undefined) {
      omitted.add(place)
      changed = true
    }
  }
  return changed
}

/** The member of a key first, because the others may be right; then the key. Items of a list keep their positions. */
function nextPlace(path: string, omitted: ReadonlySet<string>): string | undefined {
  const [, key = '', member] = path.split('/', 3).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const inner = member === undefined || /^\d+$/.test(member) ? [] : [`/${key}/${member}`]
  return [...inner, `/${key}`].find((place) => !omitted.has(place))
}

const variableForm = /\(from the variable (\w+)\)/

/** The key that a message without a path is about. */
function pathOf(message: string): string {
  return /folder of tools|which is to hold tools/.test(message) ? '/toolsFolder' : ''
}

function withCause({ message, cause }: Error): string {
  const why = cause instanceof Error ? ` ${cause.name}: ${cause.message}`.slice(0, 500) : ''
  return `${message}${why}`
}

function fileOf(file: unknown): string | undefined {
  return typeof file === 'string' ? file : undefined
}

function remedyOf(path: string, message: string): string {
  const [, variable] = variableForm.exec(message) ?? []
  if (variable !== undefined) return `Correct or unset the variable ${variable}.`
  if (/is not (?:a|an) .*(?:key|option)|there (?:is|are)|is not an? (?:\w+ )?option/.test(message)) {
    return 'Correct the name, or remove the key; `gantry docs reference/configuration` lists the keys.'
  }
  if (/does not exist|cannot be read|is not there/.test(message)) return 'Create the file, or correct its path.'
  const key = path.split('/', 2)[1]
  return key === undefined
    ? 'Correct the file.'
    : `Correct the value; \`gantry docs reference/configuration\` describes \`${key}\`.`
}

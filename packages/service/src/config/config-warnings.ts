import { dirname, resolve } from 'node:path'
import type { Issue } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Backend } from '@gantry/core'
import { type NamedTool, oneOrMoreMatcher } from '@gantry/core/internal/ids/tool-pattern'
import { nearest } from '@gantry/core/internal/search/near'
import { builtinTools, demoTools } from '@gantry/tools'
import type { LoadedConfig } from './config.ts'
import { type ConfigFinding, fileFault, fileRemedy, secretFindings } from './config-secrets.ts'

interface Around {
  /** Keys and members that were left out because they have problems. */
  readonly omitted: ReadonlySet<string>
  readonly environment: NodeJS.ProcessEnv
}

/** What `gantry config check` finds beyond the form of the configuration, without running or connecting anything. */
export async function configFindings(
  loaded: LoadedConfig,
  around: Around,
): Promise<{ readonly problems: readonly ConfigFinding[]; readonly warnings: readonly ConfigFinding[] }> {
  const unsure = [...around.omitted].some((place) => /^\/secret(?:s|Store)(?:\/|$)/.test(place))
  const secrets = await secretFindings(loaded, around.environment, unsure)
  return {
    problems: [...fileProblems(loaded), ...secrets.problems],
    warnings: [
      ...loaded.warnings.map(general),
      ...secrets.warnings,
      ...patternWarnings(loaded, around),
      ...backendWarnings(loaded.options.backends ?? []),
    ],
  }
}

/** A warning of the loading, which is a text. */
function general(message: string): ConfigFinding {
  if (/^The variable/.test(message)) return { path: '', message, remedy: 'Correct or unset it.' }
  return { path: '/toolsFolder', message, remedy: 'gantry tools folder reports on each file.' }
}

/** Files that the service reads when it starts, such as certificates. */
function fileProblems({ document, file }: LoadedConfig): ConfigFinding[] {
  const folder = file === undefined ? '.' : dirname(file)
  return filesIn(document, '').flatMap(({ path, name }) => {
    const fault = fileFault(resolve(folder, name))
    return fault === undefined ? [] : [{ path, message: `names ${name}, which ${fault}`, remedy: fileRemedy }]
  })
}

/** Rules and tenants whose patterns match no tool. Tools of backends that are discovered later are not known. */
function patternWarnings(loaded: LoadedConfig, { omitted }: Around): ConfigFinding[] {
  if (['/tools', '/backends', '/toolsFolder'].some((key) => omitted.has(key))) return []
  const { backends = [], tools: own = [], policy } = loaded.options
  const shipped = [...(loaded.builtins ? builtinTools(loaded.builtinOptions) : []), ...(loaded.demo ? demoTools() : [])]
  const tools: readonly NamedTool[] = [...shipped, ...own].map(({ tool }) => tool)
  const open = new Set(backends.filter(({ discover }) => discover !== undefined).map(({ name }) => name.toLowerCase()))
  const check = (path: string, patterns: unknown): ConfigFinding[] =>
    (Array.isArray(patterns) ? patterns : [patterns]).filter(isText).flatMap((pattern, index) => {
      const [space = '', name = ''] = pattern.toLowerCase().split(':')
      if (pattern === '*' || open.has(space) || reserved.has(`${space}:${name}`)) return []
      const issues: Issue[] = []
      const matches = oneOrMoreMatcher(pattern, path, issues)
      if (issues.length > 0 || tools.some(matches)) return []
      const at = Array.isArray(patterns) ? `${path}/${index}` : path
      return [{ path: at, message: `names no tool: ${pattern}${didYouMean(pattern, tools)}`, remedy: patternRemedy }]
    })
  const rules = isObject(policy) && Array.isArray(policy.rules) ? policy.rules : []
  const ofRules = rules.flatMap((rule, index) =>
    ['allow', 'deny', 'ask', 'unavailable'].flatMap((verb) => {
      const patterns: unknown = isObject(rule) ? rule[verb] : undefined
      return patterns === undefined ? [] : check(`/policy/rules/${index}/${verb}`, patterns)
    }),
  )
  const ofTenants = Object.entries(loaded.service.tenants).flatMap(([tenant, settings]) =>
    isObject(settings) && settings.tools !== undefined ? check(`/tenants/${tenant}/tools`, settings.tools) : [],
  )
  return [...ofRules, ...ofTenants]
}

const patternRemedy = 'Correct the pattern, or remove it; gantry tools lists the ids.'
/** Tools that an executor adds and no list holds. */
const reserved = new Set(['code:program'])

function didYouMean(pattern: string, tools: readonly NamedTool[]): string {
  const [space = '', name = '*'] = pattern.split(':')
  const spaces = [...new Set(tools.map(({ namespace }) => namespace))]
  const ids = tools.map((tool) => `${tool.namespace}:${tool.name}`)
  const [near] = name.endsWith('*') ? nearest(space, spaces, { limit: 1 }) : nearest(pattern, ids, { limit: 1 })
  if (near === undefined || near === space) return ''
  return `; did you mean ${near.includes(':') ? near : `${near}:${name}`}?`
}

/** Backends that cannot start: the service starts without them, and their tools are missing. */
function backendWarnings(backends: readonly Backend[]): ConfigFinding[] {
  return backends.flatMap((backend, index) => {
    const missing = backend.missing?.()
    const remedy = 'Install the program or correct the command; until then the tools of the backend are missing.'
    return missing === undefined ? [] : [{ path: `/backends/${index}`, message: missing, remedy }]
  })
}

interface NamedFile {
  readonly path: string
  readonly name: string
}

/** Keys whose files are checked where they are read, or that may not exist yet. */
const checkedElsewhere = new Set(['authentication', 'secretStore', 'secrets', 'runtimeServer', 'runtimes'])

/** Every text under a key that ends in `File`. */
function filesIn(value: unknown, at: string): NamedFile[] {
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, member]): NamedFile[] => {
    if (at === '' && checkedElsewhere.has(key)) return []
    const path = `${at}/${key}`
    return key.endsWith('File') && isText(member) ? [{ path, name: member }] : filesIn(member, path)
  })
}

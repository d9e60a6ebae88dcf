import { accessSync, constants, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Issue } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { openSecretStore } from '@gantry/core'
import { shortestSecret } from '@gantry/core/internal/json/secret-forms'
import type { LoadedConfig } from './config.ts'

/** A problem or a warning: where it is, what is wrong, and what to do. */
export interface ConfigFinding extends Issue {
  readonly remedy: string
}

export const fileRemedy = 'Create the file or correct its path; paths are relative to the configuration.'

/** The secrets of a configuration, by what is known without asking code of the configuration. */
export interface SecretFindings {
  /** Secrets that the service needs when it starts, and that have no value. */
  readonly problems: readonly ConfigFinding[]
  /** Other secrets without a value. */
  readonly warnings: readonly ConfigFinding[]
}

/** Checks that each secret which is declared or needed has a value. `unsure` when keys of secrets were left out. */
export async function secretFindings(
  loaded: LoadedConfig,
  environment: NodeJS.ProcessEnv,
  unsure: boolean,
): Promise<SecretFindings> {
  const { document, secretStore, options } = loaded
  const declared = Object.keys(document?.secrets ?? {})
  const faults = declaredFaults(loaded, environment)
  // A source that is code of the configuration is not asked.
  const opaque = options.secrets !== undefined && declared.length === 0 && secretStore === undefined
  const stored = secretStore === undefined ? [] : await namesIn(secretStore)
  const known = new Set([...declared, ...stored])
  const absent = (name: string): boolean => !opaque && !unsure && !known.has(name)
  const needed = neededAtStart(document)
  const problems = needed.flatMap(({ path, name }): ConfigFinding[] => {
    const fault = faults.get(name)
    if (fault !== undefined && !stored.includes(name))
      return [{ ...fault, message: `${fault.message}; ${path} needs it` }]
    return absent(name) ? [missing(path, name)] : []
  })
  const stops = new Set(needed.map(({ name }) => name))
  const ofTools = (options.tools ?? []).flatMap(({ tool }) =>
    (tool.secrets ?? []).filter(absent).map((name) => missing(`/tools (${tool.namespace}:${tool.name})`, name)),
  )
  const others = [...faults].flatMap(([name, fault]) => (stops.has(name) || stored.includes(name) ? [] : [fault]))
  return { problems, warnings: [...others, ...ofTools] }
}

function missing(path: string, name: string): ConfigFinding {
  const remedy = `Add ${name} under secrets, or store it: gantry secrets set ${name}.`
  return { path, message: `needs the secret ${name}, which no source has`, remedy }
}

/** The declared secrets whose variable or file has no value, by name. */
function declaredFaults({ document, file }: LoadedConfig, environment: NodeJS.ProcessEnv): Map<string, ConfigFinding> {
  const folder = file === undefined ? '.' : dirname(file)
  const faults = new Map<string, ConfigFinding>()
  for (const [name, location] of Object.entries(document?.secrets ?? {})) {
    const path = `/secrets/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    if ('file' in location) {
      const fault = fileFault(resolve(folder, location.file))
      if (fault !== undefined) {
        faults.set(name, { path, message: `is in ${location.file}, which ${fault}`, remedy: fileRemedy })
      }
      continue
    }
    const value = environment[location.env] ?? ''
    if (value.length >= shortestSecret) continue
    const fault = value === '' ? 'is not set' : `is shorter than ${shortestSecret} characters`
    const remedy = `Set ${location.env} where Gantry starts; until then calls that need the secret fail.`
    faults.set(name, { path, message: `is in the variable ${location.env}, which ${fault}`, remedy })
  }
  return faults
}

async function namesIn(store: NonNullable<LoadedConfig['secretStore']>): Promise<readonly string[]> {
  try {
    return await (await openSecretStore(store)).list()
  } catch {
    // A store that does not open is a problem of its own.
    return []
  }
}

interface NeededSecret {
  readonly path: string
  readonly name: string
}

/** Secrets that the service reads when it starts: its signing keys, and `secret:name` in the settings of connections. */
function neededAtStart(document: LoadedConfig['document']): NeededSecret[] {
  const { service, redis, kafka, s3, tracing } = document ?? {}
  const { auditSecrets = [], callbackSecret } = service ?? {}
  return [
    ...auditSecrets.map((name, index) => ({ path: `/service/auditSecrets/${index}`, name })),
    ...(callbackSecret === undefined ? [] : [{ path: '/service/callbackSecret', name: callbackSecret }]),
    ...Object.entries({ redis, kafka, s3, tracing }).flatMap(([key, part]) => references(part, `/${key}`)),
  ]
}

function references(value: unknown, path: string): NeededSecret[] {
  if (isText(value)) return value.startsWith('secret:') ? [{ path, name: value.slice('secret:'.length) }] : []
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, member]) => references(member, `${path}/${key}`))
}

/** Why a file cannot be read; undefined when it can. */
export function fileFault(file: string): string | undefined {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (stats === undefined) return 'does not exist'
  if (!stats.isFile()) return 'is not a file'
  try {
    accessSync(file, constants.R_OK)
    return undefined
  } catch {
    return 'cannot be read'
  }
}

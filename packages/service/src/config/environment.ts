import type { Issue, JsonObject } from '@gantry/contract'

/** Variables that are read, each with the key that it overrides. */
const variables: { readonly [name: string]: string | undefined } = {
  GANTRY_CONFIG: undefined,
  GANTRY_DATA: undefined,
  GANTRY_SECRETS_KEY: undefined,
  GANTRY_TIMEOUT_MS: '/limits/timeoutMs',
  GANTRY_FORMAT: '/format',
}

/** Variables of our tests and of the program's starter: right where they stand, but nothing to suggest. */
const elsewhere: readonly string[] = [
  'GANTRY_BUNDLE',
  'GANTRY_ENGINES',
  'GANTRY_MATRIX',
  'GANTRY_SOAK_SEED',
  'GANTRY_STARTER',
]

export const wrongEnvironment = 'The environment has a wrong value.'

export interface Overrides {
  readonly timeoutMs: number | undefined
  readonly format: 'annotate' | 'assert' | undefined
  readonly issues: readonly Issue[]
  /** Variables that look as if they were meant for us. */
  readonly unknown: readonly string[]
}

/** What the environment says over the file. */
export function readEnvironment(environment: NodeJS.ProcessEnv): Overrides {
  const issues: Issue[] = []
  const wrong = (name: string, message: string): void => {
    issues.push({ path: variables[name] ?? '', message: `${message} (from the variable ${name})` })
  }
  const { GANTRY_TIMEOUT_MS: time, GANTRY_FORMAT: format } = environment
  const number = Number(time)
  // A wrong number overrides nothing: it would be found wrong again in its new place.
  const timeoutMs = time !== undefined && number > 0 && Number.isFinite(number) ? number : undefined
  if (time !== undefined && time !== '' && timeoutMs === undefined) {
    wrong('GANTRY_TIMEOUT_MS', 'must be a number of milliseconds above 0')
  }
  const known = format === 'annotate' || format === 'assert' ? format : undefined
  if (format !== undefined && format !== '' && known === undefined) wrong('GANTRY_FORMAT', 'must be annotate or assert')
  const unknown = Object.keys(environment).filter(
    (name) => name.startsWith('GANTRY_') && !Object.hasOwn(variables, name) && !elsewhere.includes(name),
  )
  return { timeoutMs, format: known, issues, unknown }
}

/** A warning for each variable nobody reads; only its name is shown. */
export async function unknownVariables(names: readonly string[]): Promise<string[]> {
  if (names.length === 0) return []
  const { nearest } = await import('@gantry/core')
  return names.map((name) => {
    const [near] = nearest(name, Object.keys(variables), { limit: 1 })
    return `The variable ${name} is not used.${near === undefined ? '' : ` Did you mean ${near}?`}`
  })
}

/** The document with the environment's values in it. */
export function override(document: JsonObject, { timeoutMs, format }: Overrides): JsonObject {
  const { limits } = document
  const object = typeof limits === 'object' && limits !== null && !Array.isArray(limits) ? limits : {}
  return {
    ...document,
    ...(timeoutMs === undefined ? {} : { limits: { ...object, timeoutMs } }),
    ...(format === undefined ? {} : { format }),
  }
}

import type { Issue, Json, JsonObject } from '@gantry/contract'
import { copyJson, environmentSecrets, JsonError } from '@gantry/core'
import type { LoadedConfig } from './config.ts'
import { type Overrides, override, wrongEnvironment } from './environment.ts'
import { liveKeys, separate } from './live-parts.ts'
import { configError, throwingValue } from './problem.ts'
import { configIssues } from './validate.ts'

/** Checks what a file said together with the environment, and makes executor options of it; lists all that is wrong. */
export function composeConfig(
  file: string,
  said: unknown,
  overrides: Overrides,
  environment: NodeJS.ProcessEnv,
): Omit<LoadedConfig, 'warnings'> {
  if (typeof said !== 'object' || said === null || Array.isArray(said)) {
    throw configError(file, `The configuration ${file} must be an object.`, [])
  }
  const issues: Issue[] = [...overrides.issues]
  const { data, live } = separate(membersOf(said, file), file, issues)
  const document = override(plain(data, issues), overrides)
  issues.push(...configIssues(document))
  if (issues.length > 0) throw configError(file, problemText(file, issues.length, overrides), issues)
  const { demo, $schema: _schema, secrets, ...options } = document
  return {
    file,
    demo: demo === true,
    options: {
      ...options,
      ...(secrets === undefined ? {} : { secrets: environmentSecrets(variablesOf(secrets), environment) }),
      ...(live.tools.length === 0 ? {} : { tools: live.tools }),
      ...(live.backends.length === 0 ? {} : { backends: live.backends }),
      ...(live.policy === undefined ? {} : { policy: live.policy }),
      ...(live.secrets === undefined ? {} : { secrets: live.secrets }),
    },
  }
}

/** Reads each key once, so that one that throws can be named; keys of a class count where we know them. */
function membersOf(said: object, file: string): { readonly [key: string]: unknown } {
  const keys = new Set([...Object.keys(said), ...liveKeys])
  const entries = [...keys].map((key) => {
    try {
      return [key, said[key as keyof typeof said] as unknown] as const
    } catch (error) {
      throw throwingValue(file, `/${key}`, error)
    }
  })
  return Object.fromEntries(entries)
}

/** A file is not blamed for what the environment alone got wrong. */
function problemText(file: string, count: number, overrides: Overrides): string {
  if (count === overrides.issues.length) return wrongEnvironment
  return `The configuration ${file} has ${count === 1 ? 'a problem' : `${count} problems`}.`
}

function plain(data: object, issues: Issue[]): JsonObject {
  try {
    return copyJson(data) as JsonObject
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    issues.push({ path: error.path, message: error.message })
    return {}
  }
}

function variablesOf(secrets: Json): { [name: string]: string } {
  const entries = Object.entries(secrets as { readonly [name: string]: { readonly env: string } })
  return Object.fromEntries(entries.map(([name, { env }]) => [name, env]))
}

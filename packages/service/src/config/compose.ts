import { dirname, join, resolve } from 'node:path'
import type { Issue, JsonObject } from '@gantry/contract'
import { filePins } from '@gantry/core'
import { copyJson } from '@gantry/core/internal/json/copy'
import { JsonError } from '@gantry/core/internal/json/limits'
import type { SandboxNetworkOptions, WebOptions } from '@gantry/tools'
import { authenticationIssues } from './authentication-settings.ts'
import { brokerIssues } from './broker-settings.ts'
import { callbackIssues } from './callback-issues.ts'
import type { ConfigRequest, LoadedConfig } from './config.ts'
import { makeBackends } from './data-backends.ts'
import { dataTools } from './data-tools.ts'
import { type Overrides, override, wrongEnvironment } from './environment.ts'
import { liveKeys, separate } from './live-parts.ts'
import { partIssues } from './part-issues.ts'
import { configError, throwingValue } from './problem.ts'
import { runtimeOptions } from './runtime-options.ts'
import { secretSources, storeOptions } from './secret-sources.ts'
import { addressIssues, dataFolder, serviceSettings, withoutService } from './service-settings.ts'
import { tenantIssues } from './tenant-issues.ts'
import { openToolsFolder } from './tools-folder.ts'
import { configIssues } from './validate.ts'

/** Checks what a file said together with the environment, and makes executor options of it; lists all that is wrong. */
export async function composeConfig(
  file: string,
  said: unknown,
  overrides: Overrides,
  request: Omit<ConfigRequest, 'file'>,
): Promise<Omit<LoadedConfig, 'warnings'>> {
  const { environment, signal } = request
  if (typeof said !== 'object' || said === null || Array.isArray(said)) {
    throw configError(file, `The configuration ${file} must be an object.`, [])
  }
  const issues: Issue[] = [...overrides.issues]
  const { data, live, ...lists } = separate(membersOf(said, file), file, issues)
  const document = override(plain(data, issues), overrides)
  issues.push(...configIssues(document), ...brokerIssues(document))
  issues.push(...authenticationIssues(document, dirname(file)), ...tenantIssues(document), ...addressIssues(document))
  const backends = await makeBackends(lists.backends, file, issues)
  const tools = [...live.tools, ...dataTools(lists.tools, issues)]
  issues.push(...(await partIssues(document, backends, issues)))
  issues.push(...(await callbackIssues(document, issues)))
  if (issues.length > 0) throw configError(file, problemText(file, issues.length, overrides), issues)
  const {
    demo,
    builtins,
    toolsFolder: named,
    sandboxNetwork,
    httpFetch,
    knowledge,
    $schema: _schema,
    secrets,
    secretStore,
    pins,
    profiles,
    runtimes,
    ...rest
  } = document
  const options = withoutService(rest)
  const folder = dirname(file)
  const place = dataFolder(folder, environment)
  const store = storeOptions(secretStore, folder, place, environment)
  const sources = secretSources({ secrets, store, folder, environment })
  const toolsFolder = await openToolsFolder(named, {
    ...{ folder, tools, backends, signal, fresh: request.fresh === true },
    memory: request.folderMemory,
  })
  const all = [...tools, ...(toolsFolder?.tools ?? [])]
  return {
    file,
    data: place,
    ...(toolsFolder === undefined ? {} : { toolsFolder }),
    ...(store === undefined ? {} : { secretStore: store }),
    service: serviceSettings(document, place, folder),
    builtins: builtins !== false,
    builtinOptions: {
      ...(sandboxNetwork === undefined ? {} : { sandboxNetwork: sandboxNetwork as SandboxNetworkOptions }),
      ...(httpFetch === undefined ? {} : { httpFetch: httpFetch as WebOptions }),
    },
    knowledge: { ...(knowledge as LoadedConfig['knowledge']), ...live.knowledge },
    demo: demo === true,
    options: {
      ...options,
      runtimes: runtimeOptions({ runtimes, profiles }, folder, environment),
      pins: filePins(typeof pins === 'string' ? resolve(folder, pins) : join(place, 'pins.json')),
      ...(sources === undefined ? {} : { secrets: sources }),
      ...(all.length === 0 ? {} : { tools: all }),
      ...(backends.length === 0 ? {} : { backends }),
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

import { readFile } from 'node:fs/promises'
import { ToolError } from '@gantry/contract'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { namedSecret, type SecretValues } from '@gantry/core/internal/secrets/named-secret'
import { createTemporalClient, type TemporalTarget } from './connection/connect.ts'
import { createTemporalEngine, type TemporalEngine } from './engine/temporal-engine.ts'
import { createTemporalRuntime } from './runtime/temporal-runtime.ts'
import { secretPrefix, type TemporalSettings, temporalCheck } from './settings-check.ts'

/** Resolves secrets and reads files. Rejects with CONFIG_INVALID or SECRET_UNAVAILABLE. */
export async function openTarget(settings: TemporalSettings, secrets?: SecretValues): Promise<TemporalTarget> {
  const issues = temporalCheck.issues(settings, '')
  if (issues.length > 0) {
    const [first] = issues
    throw new ToolError('CONFIG_INVALID', `Invalid settings of temporal: ${first?.path} ${first?.message}.`, {
      details: { issues },
    })
  }
  const { address, namespace = 'default', taskQueue = 'gantry', tls, apiKey, payloadKey = [] } = settings
  const keys = [payloadKey].flat()
  return {
    address,
    namespace,
    taskQueue,
    payloadKeys: await Promise.all(keys.map((name) => payloadKeyOf(name, secrets))),
    ...(tls === undefined ? {} : { tls: await readTls(tls) }),
    ...(apiKey === undefined ? {} : { apiKey: await secretText(apiKey, secrets) }),
  }
}

const keyBytes = 32

async function payloadKeyOf(named: string, secrets: SecretValues | undefined): Promise<Uint8Array> {
  const value = await secretText(named, secrets)
  const key = Buffer.from(value, /^[0-9a-f]{64}$/i.test(value) ? 'hex' : 'base64')
  if (key.length === keyBytes) return key
  const message = `The secret ${named.slice(secretPrefix.length)} must be 32 bytes as base64 or hex; make one with \`openssl rand -base64 32\`.`
  throw new ToolError('CONFIG_INVALID', message)
}

async function secretText(named: string, secrets: SecretValues | undefined): Promise<string> {
  const name = named.slice(secretPrefix.length)
  const found = await namedSecret(secrets, name)
  if (found !== undefined) return found.trim()
  const message = `The secret ${name}, which the settings of temporal name, is in no source; add it under secrets or to the secret store.`
  throw new ToolError('SECRET_UNAVAILABLE', message)
}

async function readTls(tls: NonNullable<TemporalSettings['tls']>): Promise<NonNullable<TemporalTarget['tls']>> {
  if (tls === true) return true
  const read = async (name: 'ca' | 'cert' | 'key', file: string | undefined) => {
    if (file === undefined) return {}
    const content = await readFile(file).catch((cause: unknown) => {
      throw new ToolError('CONFIG_INVALID', `The file ${file} of /tls/${name}File cannot be read.`, { cause })
    })
    return { [name]: content }
  }
  return {
    ...(await read('ca', tls.caFile)),
    ...(await read('cert', tls.certFile)),
    ...(await read('key', tls.keyFile)),
  }
}

/** Creates the runtime; secrets and files are read with its first use. */
export function openTemporalRuntime(settings: TemporalSettings, secrets?: SecretValues): Runtime {
  return createTemporalRuntime(
    createTemporalClient(() => openTarget(settings, secrets)),
    timesOf(settings),
  )
}

/** Creates the engine; secrets and files are read with its first use. */
export function openTemporalEngine(settings: TemporalSettings, secrets?: SecretValues): TemporalEngine {
  return createTemporalEngine(
    createTemporalClient(() => openTarget(settings, secrets)),
    timesOf(settings),
  )
}

function timesOf({ heartbeatMs }: TemporalSettings) {
  return heartbeatMs === undefined ? {} : { heartbeatMs }
}

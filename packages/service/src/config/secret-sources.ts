import { basename, dirname, join, resolve } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import {
  encryptedSecrets,
  environmentSecrets,
  fileSecrets,
  firstOf,
  type SecretSource,
  type SecretStoreOptions,
} from '@gantry/core'
import { readBounded } from '@gantry/core/internal/files/private-file'

/** The source of one secret: a variable or a file. */
export type SecretLocation = { readonly env: string } | { readonly file: string }

/** The encrypted store: by default `secrets` in Gantry's data folder, opened with the key in GANTRY_SECRETS_KEY. */
export interface SecretStoreLocation {
  readonly file?: string
  readonly keyFile?: string
  readonly keyVariable?: string
}

export interface SecretPlaces {
  readonly secrets: { readonly [name: string]: SecretLocation } | undefined
  readonly store: SecretStoreOptions | undefined
  /** Folder of the configuration, from which paths are resolved. */
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
}

/** The secret source of a configuration; undefined when it has none. Individually named secrets win over the store. */
export function secretSources({ secrets = {}, store, folder, environment }: SecretPlaces): SecretSource | undefined {
  const places = Object.entries(secrets)
  const variables = places.flatMap(([name, place]) => ('env' in place ? [[name, place.env] as const] : []))
  const files = new Map(
    places.flatMap(([name, place]) => ('file' in place ? [[name, resolve(folder, place.file)]] : [])),
  )
  const sources: SecretSource[] = []
  if (variables.length > 0) sources.push(environmentSecrets(Object.fromEntries(variables), environment))
  if (files.size > 0) sources.push(filesByName(files))
  if (store !== undefined) sources.push(encryptedSecrets(store))
  return sources.length === 0 ? undefined : firstOf(...sources)
}

/** Options of the encrypted store; undefined when the configuration has none. `data` is its default folder. */
export function storeOptions(
  place: boolean | SecretStoreLocation | undefined,
  folder: string,
  data: string,
  environment: NodeJS.ProcessEnv,
): SecretStoreOptions | undefined {
  if (place === undefined || place === false) return undefined
  const { file, keyFile, keyVariable = 'GANTRY_SECRETS_KEY' } = place === true ? {} : place
  const key = keyFile === undefined ? { variable: keyVariable } : { file: resolve(folder, keyFile) }
  return { file: file === undefined ? join(data, 'secrets') : resolve(folder, file), key, environment }
}

function filesByName(files: ReadonlyMap<string, string>): SecretSource {
  return {
    get(name, request) {
      const file = files.get(name)
      return file === undefined ? undefined : fileSecrets({ folder: dirname(file) }).get(basename(file), request)
    },
  }
}

const prefix = 'secret:'

/** The value of a setting that is plain text or `secret:name`; `use` completes "The secret X, which …". */
export async function resolveText(text: string, secrets: unknown, use: string): Promise<string> {
  return text.startsWith(prefix) ? secretText(text.slice(prefix.length), secrets, use) : text
}

/** The value of a secret that the service itself needs; throws SECRET_UNAVAILABLE when no source has it. */
export async function secretText(name: string, secrets: unknown, use: string): Promise<string> {
  const signal = AbortSignal.timeout(5_000)
  const value: unknown = isSource(secrets) ? await secrets.get(name, { signal }) : undefined
  if (typeof value === 'string') return value
  throw new ToolError(
    'SECRET_UNAVAILABLE',
    `The secret ${name}, which ${use}, is in no source; add it under secrets or to the secret store.`,
  )
}

/** Paths of PEM files: authorities, and a client certificate with its key. */
interface TlsFiles {
  readonly caFile?: string
  readonly certFile?: string
  readonly keyFile?: string
}

/** Reads the files. Rejects with CONFIG_INVALID and the key under `path` for one that cannot be read. */
export async function readTlsFiles(
  { caFile, certFile, keyFile }: TlsFiles,
  path: string,
): Promise<{ readonly ca?: string; readonly cert?: string; readonly key?: string }> {
  const read = async (name: string, file: string | undefined): Promise<string | undefined> =>
    file === undefined ? undefined : readPem(file, `${path}/${name}File`)
  const held = { ca: await read('ca', caFile), cert: await read('cert', certFile), key: await read('key', keyFile) }
  return Object.fromEntries(Object.entries(held).filter(([, text]) => text !== undefined))
}

/** Longer than any bundle of certificates. */
const mostPemBytes = 4_194_304

async function readPem(file: string, path: string): Promise<string> {
  const refused = (words: string, cause?: unknown): ToolError =>
    new ToolError('CONFIG_INVALID', `The file ${file} of ${path} ${words}.`, {
      cause,
      details: { issues: [{ path, message: words }] },
    })
  const found = await readBounded(file, mostPemBytes).catch((cause: unknown) => {
    throw refused('cannot be read', cause)
  })
  if (found.state === 'read') return found.bytes.toString()
  throw refused(found.state === 'too-long' ? `has more than ${mostPemBytes} bytes` : 'is not a regular file')
}

function isSource(value: unknown): value is { get(name: string, request: object): unknown } {
  return isObject(value) && typeof value.get === 'function'
}

import { basename, dirname, join, resolve } from 'node:path'
import type { Json } from '@gantry/contract'
import {
  encryptedSecrets,
  environmentSecrets,
  fileSecrets,
  firstOf,
  type SecretSource,
  type SecretStoreOptions,
} from '@gantry/core'

/** Where one secret is: in a variable, or in a file of its own. */
type Place = { readonly env: string } | { readonly file: string }

/** The encrypted store: by default `secrets` in Gantry's data folder, opened with the key in GANTRY_SECRETS_KEY. */
interface StorePlace {
  readonly file?: string
  readonly keyFile?: string
  readonly keyVariable?: string
}

export interface SecretPlaces {
  readonly secrets: Json | undefined
  readonly store: SecretStoreOptions | undefined
  /** Folder of the configuration; paths begin there. */
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
}

/** The secrets that a configuration names; undefined when it names none. What it names one by one comes first. */
export function secretSources({ secrets, store, folder, environment }: SecretPlaces): SecretSource | undefined {
  const places = Object.entries((secrets ?? {}) as { readonly [name: string]: Place })
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

/** Where the encrypted store is and what opens it; undefined when the configuration names none. `data` is the folder it is in by default. */
export function storeOptions(
  place: Json | undefined,
  folder: string,
  data: string,
  environment: NodeJS.ProcessEnv,
): SecretStoreOptions | undefined {
  if (place === undefined || place === false) return undefined
  const { file, keyFile, keyVariable = 'GANTRY_SECRETS_KEY' } = (place === true ? {} : place) as StorePlace
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

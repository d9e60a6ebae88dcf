/** The exports of a module; a CommonJS module has them under `default` as well. */
export interface ImportedModule {
  readonly default?: unknown
  readonly 'module.exports'?: unknown
}

/** Imports a module by its URL. This is a separate file because the bundler replaces it (scripts/bundle.mjs). */
export function importModule(url: string): Promise<ImportedModule> {
  return import(url)
}

/** What a module exports; one in CommonJS is there twice. */
export interface ImportedModule {
  readonly default?: unknown
  readonly 'module.exports'?: unknown
}

/** Imports a module by its address; a file of its own, because the bundler replaces it (scripts/bundle.mjs). */
export function importModule(url: string): Promise<ImportedModule> {
  return import(url)
}

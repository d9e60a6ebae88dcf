/** Imports a module by its address; a file of its own, because inside the bundle the program's starter has to do it. */
export function importModule(url: string): Promise<{ readonly default?: unknown }> {
  return import(url)
}

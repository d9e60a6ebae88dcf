/** A parsed regular expression, without what a boolean match does not need: capture numbers, names and laziness. */
export type Regex =
  | { readonly kind: 'set'; readonly source: string; readonly code: number | undefined }
  | { readonly kind: 'edge'; readonly at: Edge }
  | { readonly kind: 'sequence'; readonly parts: readonly Regex[] }
  | { readonly kind: 'choice'; readonly options: readonly Regex[] }
  | { readonly kind: 'repeat'; readonly body: Regex; readonly min: number; readonly max: number }
  | { readonly kind: 'look'; readonly body: Regex; readonly ahead: boolean; readonly negated: boolean }
  | { readonly kind: 'back' }

/** A place between characters: start or end of the text, a word boundary or none. */
export type Edge = 'start' | 'end' | 'word' | 'inner'

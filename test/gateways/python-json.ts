/** JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: with a space after each comma and colon. */
export function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null)
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}: ${pythonJson(member)}`).join(', ')}}`
}

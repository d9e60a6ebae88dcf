const goodTag = /^[a-z0-9_.-]+$/

/** The spelling under which a tag is kept and asked for, so that `Blue Sky` and `blue-sky` are one tag everywhere. */
export function normalTag(tag: string): string {
  return goodTag.test(tag) ? tag : tag.trim().toLowerCase().replace(/\s+/g, '-')
}

/** Whether a text is a tag in its one spelling. */
export function isTag(text: string): boolean {
  return goodTag.test(text)
}

/** Reading what is in view, again and again, and nothing else. */
import { useEffect, useRef } from "preact/hooks";
import { isVisible } from "../state.js";

export const EVERY_MS = 4000;

/**
 * Read while an element is in view and the tab is visible; returns the reference for the element.
 * @param {(() => Promise<boolean>) | null} read returns whether there may be more to read later; null reads nothing
 * @param {string} key another one begins anew
 */
export function useWhileInView(read, key) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!read) return undefined;
    let timer = 0;
    let isShown = false;
    const look = async () => {
      clearTimeout(timer);
      if (!isShown) return;
      const goesOn = !isVisible.peek() || (await read());
      clearTimeout(timer);
      if (isShown && goesOn) timer = setTimeout(look, EVERY_MS);
    };
    const observer = new IntersectionObserver(([entry]) => {
      isShown = entry.isIntersecting;
      look();
    });
    if (place.current) observer.observe(place.current);
    return () => {
      isShown = false;
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [key]);
  return place;
}
